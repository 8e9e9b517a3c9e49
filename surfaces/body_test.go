package surfaces

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestBodyIsOneObject(t *testing.T) {
	for body, says := range map[string]string{
		`[1]`:                                 "begins with",
		`"code"`:                              "begins with",
		`null`:                                "begins with",
		`{"code":"1"`:                         "unexpected end",
		`{"code":}`:                           "invalid character",
		`{"code":"1"} x`:                      "after top-level value",
		`{"code":"1"}{}`:                      "after top-level value",
		`{"timeout_s":NaN}`:                   "invalid character",
		`{code:"1"}`:                          "invalid character",
		`{"a":1,}`:                            "invalid character",
		`{"code":` + strings.Repeat("[", 100): "deeper",
		`{"` + strings.Join(manyMembers(maxMembers+1), `":1,"`) + `":1}`: "members",
	} {
		_, r := Resolve([]byte(body), world())
		if r == nil || r.Code != CodeInvalidArgument || !strings.Contains(r.Message, says) {
			t.Errorf("%s: %v, want %q", clip(body), r, says)
		}
		if r != nil && (r.Fix != nil || r.Suggestion == "") {
			t.Errorf("%s: fix %v, suggestion %q", clip(body), r.Fix, r.Suggestion)
		}
	}
}

func manyMembers(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = strings.Repeat("k", i+1)
	}
	return out
}

// TestMembersAreWhatJSONSays compares the splitting of bodies with encoding/json.
func TestMembersAreWhatJSONSays(t *testing.T) {
	value := rapid.SampledFrom([]string{`1`, `-2.5e3`, `true`, `null`, `"a"`, `"\\"`, `"\""`, `"},]:,{"`, `[]`, `{}`, `[1,{"a":"]"}]`, `{"b":[{"c":"}"}]}`})
	space := rapid.SampledFrom([]string{"", " ", "\n\t", "\r\n "})
	rapid.Check(t, func(t *rapid.T) {
		body := space.Draw(t, "before") + "{"
		for i := range rapid.IntRange(0, 5).Draw(t, "members") {
			if i > 0 {
				body += ","
			}
			sp := func() string { return space.Draw(t, "space") }
			body += sp() + rapid.SampledFrom([]string{`"a"`, `"b\u0041"`, `""`, `"{"`, `"\""`}).Draw(t, "name") + sp() + ":" + sp() + value.Draw(t, "value") + sp()
		}
		body += space.Draw(t, "inside") + "}" + space.Draw(t, "after")
		var want map[string]json.RawMessage
		if err := json.Unmarshal([]byte(body), &want); err != nil {
			t.Fatal(err)
		}
		got, _, r := parseBody([]byte(body))
		if r != nil || len(got) != len(want) {
			t.Fatalf("%s: %v %v", body, got, r)
		}
		for name := range want {
			if string(got[name]) != string(want[name]) {
				t.Fatalf("%s: %q is %s, want %s", body, name, got[name], want[name])
			}
		}
	})
}

func TestManyUnknownArgumentsStayCheap(t *testing.T) {
	body := `{"` + strings.Join(manyMembers(maxMembers), `":1,"`) + `":1}`
	_, r := Resolve([]byte(body), world())
	if r == nil || len(r.Message)+len(r.Suggestion) > 200*maxMembers {
		t.Fatalf("%v", r)
	}
}

func TestBodyTooLarge(t *testing.T) {
	_, r := Resolve(make([]byte, MaxBody+1), world())
	if r == nil || HTTPStatus(r.Result(Partial{})) != 413 {
		t.Fatalf("%v", r)
	}
}

func TestEmptyBodyIsNoArguments(t *testing.T) {
	for _, body := range []string{"", " \n", "{}"} {
		if s, r := ResolveSelector([]byte(body), ToolInspect, world()); r != nil || !s.Session.Key.IsPlan() {
			t.Errorf("%q: %+v %v", body, s, r)
		}
		if _, r := Resolve([]byte(body), world()); r == nil || !strings.Contains(r.Message, "code is missing; language is missing") {
			t.Errorf("%q: %v, want a refusal, Message with \"code is missing; language is missing\"", body, r)
		}
	}
}

// TestDuplicateArguments: an argument that comes twice is refused. The same value twice can be
// fixed; of two values only the caller knows the right one.
func TestDuplicateArguments(t *testing.T) {
	rows := []struct{ body, fix string }{
		{`{"code":"1","language":"python","code":"1"}`, `{"drop":[],"set":{"code":"1"}}`},
		{`{"code":"1","language":"python","code":"2"}`, ""},
		{`{"code":"1","language":"python","language":"bash"}`, ""},
		{`{"code":"1","language":"bash","language":"bash","venv_id":1,"venv_id":1}`, `{"drop":["venv_id"],"set":{"language":"bash"}}`},
		{`{"code":"1","language":"python","session_id":1,"session_id":2,"state_mode":"stateless"}`, `{"drop":["session_id"],"set":{}}`},
		{`{"code":"1","langauge":"python","langauge":"python"}`, `{"drop":["langauge"],"set":{"language":"python"}}`},
		{`{"code":"1","langauge":"python","langauge":"bash"}`, ""},
		{`{"code":"1","language":"python","x":1,"x":2,"x":1}`, `{"drop":["x"],"set":{}}`},
	}
	for _, row := range rows {
		_, r := Resolve([]byte(row.body), world())
		if r == nil || r.Code != CodeInvalidArgument {
			t.Errorf("%s: %v, want a refusal, Code %v", row.body, r, CodeInvalidArgument)
			continue
		}
		got := ""
		if r.Fix != nil {
			got = encode(t, r.Fix)
		}
		if got != row.fix {
			t.Errorf("%s: fix %s, want %s; %s", row.body, got, row.fix, r.Suggestion)
		}
	}
}

// FuzzResolve: no body makes validation panic, every answer is whole, every fix
// mends, and a body that went through goes through again.
func FuzzResolve(f *testing.F) {
	for _, seed := range []string{
		`{"code":"1","language":"python"}`,
		`{"code":"1","language":"python","state_mode":"stateful","session_name":"sales","session_id":1}`,
		`{"code":"1","language":"bash","venv_id":1,"surface":"user_machine","machine":"laptop","atomic":true}`,
		`{"code":"\ud800","language":"zsh","timeout_s":1e999,"on_loss":"x","session_id":-0.0}`,
		`{"langauge":"pyhton","cod":"1","session":3,"":null,"thought":"\u0000"}`,
		`{"code":"1","code":"1","language":"python","venv_id":"1","idempotency_key":" "}`,
		`{"code":1e5,"language":["python"],"session_name":"a/b","background":"on"}`,
		`{"code":"1","language":"sh","state_mode":"read_only"}`,
		"{\"code\":\"\xff\xfe\"}", `[[[[[[`, `{"a":{"a":{"a":{}}}}`, "", "null", "\xef\xbb\xbf{}",
	} {
		f.Add([]byte(seed), uint8(0))
		f.Add([]byte(seed), uint8(1))
	}
	f.Fuzz(func(t *testing.T, body []byte, mesh uint8) {
		v := []View{world(), bare(), full(), {}}[mesh%4]
		call, r := Resolve(body, v)
		if r == nil {
			if call.Language == "" || call.Timeout <= 0 || (call.Session == nil) != (call.StateMode == Stateless) {
				t.Fatalf("half a call: %+v", call)
			}
			return
		}
		if r.Code == "" || r.Message == "" || r.Suggestion == "" {
			t.Fatalf("half a refusal: %+v", r)
		}
		if _, err := json.Marshal(r.Result(Partial{CallID: "c"})); err != nil {
			t.Fatal(err)
		}
		var asError error = r
		if !errors.As(asError, new(*Refusal)) {
			t.Fatal("a refusal is no error")
		}
		args, twice, broken := parseBody(body)
		if broken != nil {
			return
		}
		for _, tool := range Tools() {
			if r := judge(tool.Name, maps.Clone(args), v); r != nil && r.Message == "" {
				t.Fatalf("half a refusal: %+v", r)
			}
		}
		if r.Fix == nil {
			return
		}
		fixed, err := r.Fix.Apply(args)
		if err != nil {
			t.Fatal(err)
		}
		if _, again := resolveArgs(fixed, v); again != nil {
			t.Fatalf("fix %+v (twice: %v) leads to: %s", *r.Fix, twice, again.Message)
		}
	})
}
