package surfaces

import (
	"strings"
	"testing"
)

func TestObjectErrorsAreDescribed(t *testing.T) {
	type object struct {
		Role   string            `json:"role"`
		TTLS   float64           `json:"ttl_s"`
		Uses   int               `json:"uses"`
		Labels map[string]string `json:"labels"`
		Data   []byte            `json:"data"`
	}
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
		`{"data": 7}`:                "at data there must be a string, not a number",
		`{"data": "a?"}`:             "it has data that is not base64, at character 1",
		`{"rule": "node"}`:           `unknown field "rule"`,
		`{"role": "a"} {"role": ""}`: "there is more after the object",
		`{"role": "node"}`:           "",
	} {
		err := DecodeObject([]byte(body), new(object))
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", body, err)
		case want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)):
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}
