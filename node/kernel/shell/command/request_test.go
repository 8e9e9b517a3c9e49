package command

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// Whatever is said, there is either a question that the host can read, or an answer.
func FuzzUnderstand(f *testing.F) {
	for _, seed := range []string{
		"say.back\x00{\"a\": 1}", "-r\x00say.back\x00-", "list", "help\x00a.b", "functions.f\x00{}", "", "a.b\x00[", "--help", "\x00\x00",
	} {
		f.Add(seed, []byte(`{"in": [1]}`), []byte(`{"result": {"json": "x", "functions": [{"name": "a.b", "schema": {}}]}}`))
	}
	f.Fuzz(func(t *testing.T, said string, input, outcome []byte) {
		r, at := understand(message{arguments: strings.Split(said, "\x00"), input: input})
		if at != nil {
			if at.status == statusDone && len(at.stdout) == 0 || at.status != statusDone && len(at.stderr) == 0 {
				t.Errorf("%q is answered with nothing: %+v", said, at)
			}
			return
		}
		if !json.Valid(r.data) || !utf8.Valid(r.data) || r.data[0] == '[' || !wellNamed.MatchString(r.name) {
			t.Errorf("%q asks %q with %q", said, r.name, r.data)
		}
		if a := r.conclude(outcome); a.status == statusDone && len(a.stderr) > 0 || a.status != statusDone && len(a.stderr) == 0 {
			t.Errorf("%q: %q gives %+v", said, outcome, a)
		}
	})
}

func TestConclude(t *testing.T) {
	plain, raw, stored := call("a.b", nil, false), call("a.b", nil, true), call("functions.f", []byte("{}"), true)
	for _, c := range []struct {
		r            request
		data, stdout string
		stderr       string
	}{
		{plain, `{"result": "a\n"}`, "\"a\\n\"\n", ""},
		{raw, `{"result": "a\n"}`, "a\n\n", ""},
		{raw, `{"result": {"a":"b"}}`, "{\"a\":\"b\"}\n", ""},
		{plain, `{"result": {"type":"image","mimeType":"image/png","bytes":4,"data":"iVBORw=="}}`, `{"type":"image","mimeType":"image/png","bytes":4}` + "\n", ""},
		{raw, `{"result": {"type":"image","mimeType":"image/png","bytes":4,"data":"iVBORw=="}}`, "\x89PNG", ""},
		{plain, `{"result": ["<&>",1e400,{"type":"audio","mimeType":"audio/wav","bytes":4,"data":"UklGRg=="}]}`, `["<&>",1e400,{"type":"audio","mimeType":"audio/wav","bytes":4}]` + "\n", ""},
		{raw, `{"result": {"mimeType":"image/png","data":"iVBORw==","more":1}}`, `{"mimeType":"image/png","data":"iVBORw==","more":1}` + "\n", ""},
		{plain, `{"result": null}`, "null\n", ""},
		{plain, `{}`, "null\n", ""},
		{stored, `{"result": {"json": "x"}}`, "x\n", ""},
		{stored, `{"result": {"json": null}}`, "null\n", ""},
		{stored, `{"result": {"pickle": "x"}}`, "", "primitives: functions.f: the result is not plain JSON data, and can be used from Python only\n"},
		{plain, `{"error": {"type": "failed", "message": "no"}}`, "", "primitives: a.b: no\n"},
		{plain, `nonsense`, "", "primitives: a.b: the answer cannot be read: invalid character 'o' in literal null (expecting 'u')\n"},
	} {
		a := c.r.conclude([]byte(c.data))
		if string(a.stdout) != c.stdout || string(a.stderr) != c.stderr || (a.status == statusDone) != (c.stderr == "") {
			t.Errorf("%s gives %d, %q, %q", c.data, a.status, a.stdout, a.stderr)
		}
	}
}
