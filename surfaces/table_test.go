package surfaces

import (
	"strings"
	"testing"
)

// TestTable walks the validation table row by row. An empty fix stands for none.
func TestTable(t *testing.T) {
	long := strings.Repeat("n", MaxName+1)
	rows := []struct {
		name string
		view View
		args string
		code Code
		fix  string
		says []string // the suggestion
	}{
		{"wrong type", world(), `{"code":"1","language":"python","timeout_s":"30"}`, CodeInvalidArgument,
			`{"drop":[],"set":{"timeout_s":30}}`, nil},
		{"code missing", world(), `{"language":"python"}`, CodeInvalidArgument, "", []string{"code"}},
		{"code of another type", world(), `{"code":["a"],"language":"python"}`, CodeInvalidArgument, "", []string{"code"}},
		{"code with NUL", world(), `{"code":"a\u0000b","language":"python"}`, CodeInvalidArgument, "", []string{"without NUL"}},
		{"code with half a pair", world(), `{"code":"\ud800","language":"python"}`, CodeInvalidArgument, "", []string{"Unicode"}},
		{"unknown argument", world(), `{"code":"1","language":"python","colour":"red"}`, CodeInvalidArgument,
			`{"drop":["colour"],"set":{}}`, []string{"Drop colour."}},
		{"near argument", world(), `{"code":"1","langauge":"python"}`, CodeInvalidArgument,
			`{"drop":["langauge"],"set":{"language":"python"}}`, []string{"Rename langauge to language."}},
		{"aliased argument", world(), `{"code":"1","language":"python","mode":"stateful","session":"new","timeout":9}`, CodeInvalidArgument,
			`{"drop":["mode","session","timeout"],"set":{"session_name":"new","state_mode":"stateful","timeout_s":9}}`, nil},
		{"near argument that is given too", world(), `{"code":"1","language":"python","lang":"bash"}`, CodeInvalidArgument,
			`{"drop":["lang"],"set":{}}`, nil},
		{"blank name", world(), `{"code":"1","language":"python","state_mode":"stateful","session_name":"  "}`, CodeInvalidArgument,
			`{"drop":["session_name"],"set":{}}`, nil},
		{"over-long name", world(), `{"code":"1","language":"python","state_mode":"stateful","session_name":"` + long + `"}`, CodeInvalidArgument,
			`{"drop":[],"set":{"session_name":"` + long[1:] + `"}}`, nil},
		{"name with a slash", world(), `{"code":"1","language":"python","state_mode":"stateful","session_name":"a/b"}`, CodeInvalidArgument,
			`{"drop":[],"set":{"session_name":"a-b"}}`, nil},
		{"name of nothing that is allowed", world(), `{"code":"1","language":"python","state_mode":"stateful","session_name":"///"}`, CodeInvalidArgument,
			"", []string{"session_name"}},
		{"negative id", world(), `{"code":"1","language":"python","state_mode":"stateful","session_id":-1}`, CodeInvalidArgument,
			"", []string{"session_id"}},
		{"id that is not whole", world(), `{"code":"1","language":"python","state_mode":"stateful","session_id":1.5}`, CodeInvalidArgument,
			"", []string{"session_id"}},
		{"name in place of the id", world(), `{"code":"1","language":"python","state_mode":"stateful","session_id":"sales"}`, CodeInvalidArgument,
			`{"drop":["session_id"],"set":{"session_name":"sales"}}`, nil},
		{"timeout of nothing", world(), `{"code":"1","language":"python","timeout_s":0}`, CodeInvalidArgument,
			`{"drop":["timeout_s"],"set":{}}`, nil},
		{"timeout too long", world(), `{"code":"1","language":"python","timeout_s":86401}`, CodeInvalidArgument,
			`{"drop":[],"set":{"timeout_s":86400}}`, nil},
		{"on_loss near", world(), `{"code":"1","language":"python","on_loss":"not-started"}`, CodeInvalidArgument,
			`{"drop":[],"set":{"on_loss":"not_started"}}`, nil},
		{"on_loss unknown", world(), `{"code":"1","language":"python","on_loss":"whatever"}`, CodeInvalidArgument,
			"", []string{`"retry"`, `"not_started"`, `"report"`}},
		{"boolean in a string", world(), `{"code":"1","language":"python","background":"True"}`, CodeInvalidArgument,
			`{"drop":[],"set":{"background":true}}`, nil},
		{"key too long", world(), `{"code":"1","language":"python","idempotency_key":"` + strings.Repeat("k", 129) + `"}`, CodeInvalidArgument,
			"", []string{"idempotency_key"}},

		{"language unknown", world(), `{"code":"1","language":"ruby"}`, CodeUnsupportedLanguage,
			"", []string{`"python"`, `"bash"`, `"sh"`}},
		{"language near", world(), `{"code":"1","language":"Pyhton"}`, CodeUnsupportedLanguage,
			`{"drop":[],"set":{"language":"python"}}`, nil},
		{"language of the contract that is not here", world(), `{"code":"1","language":"zsh"}`, CodeUnsupportedLanguage,
			"", []string{`"python"`, `"bash"`, `"sh"`}},
		{"mode unknown", world(), `{"code":"1","language":"python","state_mode":"magic"}`, CodeUnsupportedStateMode, "", []string{`"stateless"`, `"stateful"`}},
		{"mode near", world(), `{"code":"1","language":"python","state_mode":"readonly","session_name":"sales"}`, CodeUnsupportedStateMode,
			`{"drop":[],"set":{"state_mode":"read_only"}}`, nil},
		{"surface unknown", world(), `{"code":"1","language":"python","surface":"moon"}`, CodeUnsupportedSurface, "", []string{`"local"`, `"assistant_vm"`}},
		{"surface not served", bare(), `{"code":"1","language":"python","surface":"user_machine"}`, CodeUnsupportedSurface,
			`{"drop":[],"set":{"surface":"local"}}`, []string{`"local"`}},

		{"stateless by default with a name", world(), `{"code":"1","language":"python","session_name":"new"}`, CodeStatelessWithSession,
			`{"drop":[],"set":{"state_mode":"stateful"}}`, nil},
		{"stateless with a name", world(), `{"code":"1","language":"python","state_mode":"stateless","session_name":"new"}`, CodeStatelessWithSession,
			`{"drop":["session_name"],"set":{}}`, nil},
		{"stateless with both", world(), `{"code":"1","language":"python","state_mode":"stateless","session_name":"sales","session_id":1}`, CodeStatelessWithSession,
			`{"drop":["session_id","session_name"],"set":{}}`, nil},

		{"read_only without a session, several there", world(), `{"code":"1","language":"python","state_mode":"read_only"}`, CodeReadOnlyNoSession,
			"", []string{`"sales"`, "session_id"}},
		{"read_only without a session, one there", world(), `{"code":"1","language":"bash","state_mode":"read_only"}`, CodeReadOnlyNoSession,
			`{"drop":[],"set":{"session_name":"build"}}`, nil},
		{"read_only without a session, the plan there", bare(), `{"code":"1","language":"python","state_mode":"read_only"}`, CodeReadOnlyNoSession,
			`{"drop":[],"set":{"session_id":0}}`, nil},
		{"read_only without a session, none there", world(), `{"code":"1","language":"sh","state_mode":"read_only"}`, CodeReadOnlyNoSession,
			`{"drop":[],"set":{"state_mode":"stateless"}}`, nil},

		{"read_only on a name near another", world(), `{"code":"1","language":"python","state_mode":"read_only","session_name":"slaes"}`, CodeSessionNotFound,
			`{"drop":[],"set":{"session_name":"sales"}}`, []string{`"sales" (python 1)`, "(python 2)"}},
		{"read_only on a name that is not there", world(), `{"code":"1","language":"python","state_mode":"read_only","session_name":"weather"}`, CodeSessionNotFound,
			"", []string{`"sales"`}},
		{"read_only on an id that is not there", world(), `{"code":"1","language":"python","state_mode":"read_only","session_id":9}`, CodeSessionNotFound,
			"", []string{`"sales"`}},
		{"read_only where nothing is", world(), `{"code":"1","language":"sh","state_mode":"read_only","session_id":0}`, CodeSessionNotFound,
			`{"drop":["session_id"],"set":{"state_mode":"stateless"}}`, nil},

		{"id and name lead apart", world(), `{"code":"1","language":"python","state_mode":"stateful","session_id":2,"session_name":"sales"}`, CodeSessionMismatch,
			`{"drop":["session_id"],"set":{}}`, nil},
		{"name is new and id is not", world(), `{"code":"1","language":"python","state_mode":"stateful","session_id":2,"session_name":"weather"}`, CodeSessionMismatch,
			`{"drop":["session_name"],"set":{}}`, nil},
		{"name of another language", world(), `{"code":"1","language":"python","state_mode":"stateful","session_name":"build"}`, CodeSessionMismatch,
			`{"drop":[],"set":{"language":"bash"}}`, nil},
		{"name of another language, id of this", world(), `{"code":"1","language":"python","state_mode":"stateful","session_name":"build","session_id":2}`, CodeSessionMismatch,
			`{"drop":["session_name"],"set":{}}`, nil},
		{"name of an environment", world(), `{"code":"1","language":"python","state_mode":"read_only","session_name":"model"}`, CodeSessionMismatch,
			`{"drop":[],"set":{"venv_id":1}}`, nil},
		{"name of no environment", world(), `{"code":"1","language":"python","state_mode":"stateful","session_name":"sales","venv_id":2}`, CodeSessionMismatch,
			`{"drop":["venv_id"],"set":{}}`, nil},
		{"name for the plan", world(), `{"code":"1","language":"python","state_mode":"stateful","session_name":"weather","session_id":0}`, CodeSessionMismatch,
			`{"drop":["session_id"],"set":{}}`, nil},

		{"one session too many", full(), `{"code":"1","language":"python","state_mode":"stateful","session_name":"weather"}`, CodeSessionLimit,
			"", []string{`"build"`, "close_session"}},
		{"one session too many, and a name like one", full(), `{"code":"1","language":"python","state_mode":"stateful","session_name":"salse"}`, CodeSessionLimit,
			"", []string{`"build"`, "close_session", `"sales"`}},
		{"one session too many, by id", full(), `{"code":"1","language":"bash","state_mode":"stateful","session_id":7}`, CodeSessionLimit,
			"", []string{`"build"`, "close_session"}},
		{"one session too many, and none like it", full(), `{"code":"1","language":"sh","state_mode":"stateful"}`, CodeSessionLimit,
			"", []string{`"build"`, "close_session"}},

		{"environment that is not there", world(), `{"code":"1","language":"python","venv_id":9}`, CodeVenvNotFound, "", []string{`1 "ml"`, `2 "web"`}},
		{"environment where none is", bare(), `{"code":"1","language":"python","venv_id":9}`, CodeVenvNotFound,
			`{"drop":["venv_id"],"set":{}}`, nil},
		{"environment with a shell", world(), `{"code":"1","language":"bash","venv_id":1}`, CodeVenvWithShell,
			`{"drop":["venv_id"],"set":{}}`, nil},

		{"remote with a session", world(), `{"code":"1","language":"python","surface":"assistant_vm","state_mode":"stateful","session_name":"sales","atomic":true}`, CodeRemoteWithSession,
			`{"drop":["atomic","session_name","state_mode"],"set":{}}`, []string{`set surface to "local"`}},
		{"remote with an environment", world(), `{"code":"1","language":"python","surface":"assistant_vm","venv_id":1}`, CodeRemoteWithSession,
			`{"drop":["venv_id"],"set":{}}`, []string{`set surface to "local"`}},
		{"remote with a name, no machine linked", bare(), `{"code":"1","language":"python","surface":"user_machine","session_name":"new","state_mode":"stateful"}`, CodeRemoteWithSession,
			`{"drop":[],"set":{"surface":"local"}}`, []string{`"local"`}},

		{"several machines", world(), `{"code":"1","language":"python","surface":"user_machine"}`, CodeMachineRequired,
			"", []string{`"laptop"`, `"desktop"`, `"tablet"`, "machine"}},
		{"machine that is not linked", world(), `{"code":"1","language":"python","surface":"user_machine","machine":"server"}`, CodeMachineNotLinked,
			"", []string{`"laptop"`, `"desktop"`, `"tablet"`}},
		{"machine near another", world(), `{"code":"1","language":"python","surface":"user_machine","machine":"laptpo"}`, CodeMachineNotLinked,
			`{"drop":[],"set":{"machine":"laptop"}}`, nil},
		{"machine of another surface", world(), `{"code":"1","language":"python","surface":"assistant_vm","machine":"laptop"}`, CodeMachineNotLinked,
			`{"drop":[],"set":{"surface":"user_machine"}}`, nil},
		{"machine with local", world(), `{"code":"1","language":"python","surface":"local","machine":"laptop"}`, CodeMachineWithLocal,
			`{"drop":["machine"],"set":{}}`, nil},
		{"machine without a surface", world(), `{"code":"1","language":"python","machine":"laptop"}`, CodeMachineWithLocal,
			`{"drop":[],"set":{"surface":"user_machine"}}`, nil},

		{"atomic and stateless", world(), `{"code":"1","language":"python","atomic":true}`, CodeAtomicWithoutStateful,
			`{"drop":["atomic"],"set":{}}`, nil},
		{"atomic and read_only", world(), `{"code":"1","language":"python","atomic":true,"state_mode":"read_only","session_name":"sales"}`, CodeAtomicWithoutStateful,
			`{"drop":["atomic"],"set":{}}`, nil},

		{"keep and read_only", world(), `{"code":"1","language":"python","keep":true,"state_mode":"read_only","session_name":"sales"}`, CodeInvalidArgument,
			`{"drop":["keep"],"set":{}}`, []string{"Drop keep."}},
		{"keep and remote", world(), `{"code":"1","language":"python","keep":true,"state_mode":"stateful","surface":"assistant_vm"}`, CodeRemoteWithSession,
			`{"drop":["keep","state_mode"],"set":{}}`, []string{`set surface to "local"`}},

		{"several at once", world(), `{"code":"1","language":"bash","venv_id":1,"atomic":true,"machine":"x","colour":1}`, CodeInvalidArgument,
			`{"drop":["atomic","colour","machine","venv_id"],"set":{}}`, []string{"Drop atomic, colour, machine and venv_id."}},
		{"a graver fault behind a fault", world(), `{"code":"1","language":"python","surface":"asistant_vm","venv_id":1}`, CodeUnsupportedSurface,
			`{"drop":["venv_id"],"set":{"surface":"assistant_vm"}}`, nil},
		{"a fault behind a fault", world(), `{"code":"1","language":"pyton","state_mode":"stateful","session_name":"build"}`, CodeUnsupportedLanguage,
			`{"drop":[],"set":{"language":"bash"}}`, nil},
	}
	covered := map[Code]bool{}
	for _, row := range rows {
		covered[row.code] = true
		t.Run(row.name, func(t *testing.T) {
			_, r := Resolve([]byte(row.args), row.view)
			if r == nil {
				t.Fatal("was not refused")
			}
			if r.Code != row.code {
				t.Errorf("code %s, want %s: %s", r.Code, row.code, r.Message)
			}
			got := ""
			if r.Fix != nil {
				got = encode(t, r.Fix)
			}
			if got != row.fix {
				t.Errorf("fix %s, want %s", got, row.fix)
			}
			for _, want := range row.says {
				if !strings.Contains(r.Suggestion, want) {
					t.Errorf("the suggestion does not say %s: %s", want, r.Suggestion)
				}
			}
			if t.Failed() || testing.Verbose() {
				t.Logf("\n  error:      %s\n  suggestion: %s", r.Message, r.Suggestion)
			}
		})
	}
	for _, code := range Precedence() {
		if !covered[code] {
			t.Errorf("no row for %s", code)
		}
	}
}
