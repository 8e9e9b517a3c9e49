package gateway

import (
	"strings"
	"testing"
)

func TestWhatIsSaidOfABody(t *testing.T) {
	for body, want := range map[string]string{
		``:                           "it is empty",
		`{`:                          "it is no JSON: it ends too early",
		`{"role": node}`:             "it is no JSON: invalid character",
		`[1]`:                        "it must be an object, not a list",
		`7`:                          "it must be an object, not a number",
		`{"role": 7}`:                "at role there must be a string, not a number",
		`{"role": {}}`:               "at role there must be a string, not an object",
		`{"uses": 1.5}`:              "at uses there must be a whole number, not 1.5",
		`{"uses": true}`:             "at uses there must be a whole number, not true or false",
		`{"ttl_s": "x"}`:             "at ttl_s there must be a number, not a string",
		`{"labels": []}`:             "at labels there must be an object, not a list",
		`{"labels": {"a": 1}}`:       "at labels there must be a string, not a number",
		`{"rule": "node"}`:           `unknown field "rule"`,
		`{"role": "a"} {"role": ""}`: "there is more after the object",
		`{"role": "node"}`:           "",
	} {
		err := DecodeObject([]byte(body), new(NewToken))
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", body, err)
		case want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)):
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}
