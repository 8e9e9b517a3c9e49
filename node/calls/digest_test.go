package calls

import (
	"bytes"
	"testing"
)

func TestDigestIdentifiesEqualCalls(t *testing.T) {
	digest := func(body string) []byte {
		t.Helper()
		d, err := Digest([]byte(body))
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		return d
	}
	for body, rows := range map[string]struct{ same, other []string }{
		`{"code":"1","language":"python"}`: {
			same: []string{
				` { "language" : "python", "code" : "1" } `,
				`{"code":"1","language":"python","timeout_s":120}`,
				`{"code":"1","language":"python","timeout_s":1.2e2,"state_mode":"stateless","surface":"local","on_loss":"retry","atomic":false,"background":false,"primitives_limit":10000,"stdin":""}`,
				`{"code":"1","language":"python","thought":"another"}`,
				`{"code":"1","language":"python","background":true}`,
				`{"code":"1","language":"python","session_name":null,"keep":null}`,
			},
			other: []string{
				`{"code":"2","language":"python"}`,
				`{"code":"1","language":"bash"}`,
				`{"code":"1","language":"python","timeout_s":121}`,
				`{"code":"1","language":"python","atomic":true}`,
				`{"code":"1","language":"python","on_loss":"report"}`,
				`{"code":"1","language":"python","state_mode":"stateful"}`,
				`{"code":"1","language":"python","session_id":0}`,
				`{"code":"1","language":"python","keep":false}`,
				`{"code":"1","language":"python","stdin":"x"}`,
				`{"code":"1","language":"python","primitives":[]}`,
				`{"code":"1","language":"python","primitives_limit":0}`,
			},
		},
		`{"code":"1","language":"python","state_mode":"stateful","timeout_s":0.5}`: {
			same: []string{
				`{"code":"1","language":"python","state_mode":"stateful","timeout_s":5e-1,"session_id":0}`,
				`{"code":"1","language":"python","state_mode":"stateful","timeout_s":0.50,"session_id":0.0}`,
			},
			other: []string{
				`{"code":"1","language":"python","state_mode":"stateful","timeout_s":0.5,"session_id":1}`,
				`{"code":"1","language":"python","state_mode":"stateful","timeout_s":0.5,"session_name":"a"}`,
				`{"code":"1","language":"python","state_mode":"stateful","timeout_s":0.5,"session_name":"a","session_id":0}`,
				`{"code":"1","language":"python","state_mode":"read_only","timeout_s":0.5}`,
			},
		},
	} {
		want := digest(body)
		for _, same := range rows.same {
			if !bytes.Equal(digest(same), want) {
				t.Errorf("%s is another call than %s", same, body)
			}
		}
		for _, other := range rows.other {
			if bytes.Equal(digest(other), want) {
				t.Errorf("%s is the same call as %s", other, body)
			}
		}
	}
}
