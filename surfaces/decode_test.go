package surfaces

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestArgumentsAreDecoded decodes single values of execute_code. An empty mend means that the
// caller has to give another value.
func TestArgumentsAreDecoded(t *testing.T) {
	big := strings.Repeat("x", MaxThought)
	rows := []struct {
		argument, raw string
		want          any
		mend          string
	}{
		{"code", `"print(1)"`, "print(1)", ""},
		{"code", `""`, "", ""},
		{"code", `"\ud83d\ude00 \ufffd"`, "\U0001F600 \uFFFD", ""},
		{"code", `"\ude00\ud83d"`, nil, "ask"},
		{"code", "\"\xff\"", nil, "ask"},
		{"code", `"\\ud800"`, `\ud800`, ""},
		{"code", `12`, nil, `"12"`},
		{"code", `{"a":1}`, nil, "ask"},
		{"code", `"unfinished`, nil, "ask"},
		{"code", `nonsense`, nil, "ask"},
		{"stdin", `"a\u0000b"`, "a\x00b", ""},
		{"stdin", `"\ud800"`, nil, "ask"},

		{"session_id", `0`, 0, ""},
		{"session_id", `-0`, 0, ""},
		{"session_id", `3.0`, 3, ""},
		{"session_id", `3e2`, 300, ""},
		{"session_id", ` 3 `, 3, ""},
		{"session_id", `2147483647`, MaxSessionID, ""},
		{"session_id", `2147483648`, nil, "ask"},
		{"session_id", `1.5`, nil, "ask"},
		{"session_id", `-1`, nil, "ask"},
		{"session_id", `1e300`, nil, "ask"},
		{"session_id", `9007199254740993.5`, nil, "ask"},
		{"session_id", `"7"`, nil, `7`},
		{"session_id", `" 7.0 "`, nil, `7`},
		{"session_id", `"-7"`, nil, "ask"},
		{"session_id", `""`, nil, "drop"},
		{"session_id", `true`, nil, "ask"},
		{"session_id", `[1]`, nil, "ask"},
		{"session_id", `01`, nil, "ask"},
		{"venv_id", `0`, nil, "drop"},
		{"venv_id", `-1`, nil, "ask"},
		{"venv_id", `"2"`, nil, `2`},

		{"timeout_s", `0.25`, 0.25, ""},
		{"timeout_s", `86400`, 86400.0, ""},
		{"timeout_s", `0`, nil, "drop"},
		{"timeout_s", `-5`, nil, "drop"},
		{"timeout_s", `86400.5`, nil, `86400`},
		{"timeout_s", `1e999`, nil, "drop"},
		{"timeout_s", `"NaN"`, nil, "drop"},
		{"timeout_s", `"-Infinity"`, nil, "drop"},
		{"timeout_s", `"90s"`, nil, `90`},
		{"timeout_s", `"soon"`, nil, "drop"},
		{"timeout_s", `{}`, nil, "drop"},
		{"timeout_s", `NaN`, nil, "drop"},

		{"atomic", `true`, true, ""},
		{"atomic", ` false `, false, ""},
		{"atomic", `"FALSE"`, nil, `false`},
		{"atomic", `"yes"`, nil, `true`},
		{"atomic", `1`, nil, `true`},
		{"atomic", `0`, nil, `false`},
		{"atomic", `2`, nil, "ask"},
		{"atomic", `"perhaps"`, nil, "ask"},
		{"atomic", `""`, nil, "drop"},

		{"session_name", `"a b_c-d.9"`, "a b_c-d.9", ""},
		{"session_name", `"Försäljning 売上"`, "Försäljning 売上", ""},
		{"session_name", `"a\tb"`, nil, `"a-b"`},
		{"session_name", `"/home/x/"`, nil, `"home-x"`},
		{"session_name", `"🙂"`, nil, "ask"},
		{"session_name", `"x\ud800y"`, nil, `"x-y"`},
		{"session_name", `"   "`, nil, "drop"},
		{"session_name", `12`, nil, `"12"`},
		{"session_name", `["a"]`, nil, "ask"},

		{"machine", `" "`, nil, "drop"},
		{"machine", `7`, nil, `"7"`},
		{"idempotency_key", `""`, nil, "drop"},
		{"idempotency_key", `"a\u0000b"`, nil, "ask"},
		{"idempotency_key", `"` + strings.Repeat("é", MaxIdempotencyKey) + `"`, strings.Repeat("é", MaxIdempotencyKey), ""},
		{"idempotency_key", `"` + strings.Repeat("k", MaxIdempotencyKey+1) + `"`, nil, "ask"},
		{"thought", `"` + big + `"`, big, ""},
		{"thought", `"` + big + `y"`, nil, `"` + big + `"`},
		{"thought", `"` + big[1:] + `é"`, nil, `"` + big[1:] + `"`},
		{"on_loss", `"report"`, "report", ""},
		{"on_loss", `"Report"`, nil, `"report"`},
		{"on_loss", `"sometimes"`, nil, "ask"},
		{"on_loss", `5`, nil, "ask"},
	}
	for _, row := range rows {
		t.Run(row.argument+" "+clip(row.raw), func(t *testing.T) {
			got, p := read(toolByName[ToolExecute].argument(row.argument), json.RawMessage(row.raw))
			if row.mend == "" {
				if p != nil || got != row.want {
					t.Fatalf("got %v (%T) and %+v, want %v", got, got, p, row.want)
				}
				return
			}
			if p == nil {
				t.Fatalf("was taken as %v", got)
			}
			if !strings.Contains(p.message, row.argument) {
				t.Errorf("the message does not name the argument: %s", p.message)
			}
			mend := map[string]correction{"ask": askCaller, "drop": dropArgument}
			if want, ok := mend[row.mend]; ok {
				if p.correction != want {
					t.Fatalf("mend %v with %v, want %s", p.correction, p.value, row.mend)
				}
				return
			}
			if p.correction != setValue || encode(t, p.value) != row.mend {
				t.Fatalf("mend %v with %v, want %s", p.correction, p.value, row.mend)
			}
			again, left := read(toolByName[ToolExecute].argument(row.argument), json.RawMessage(row.mend))
			if left != nil || again != p.value {
				t.Fatalf("the fixed value is not taken as it is: %v %+v", again, left)
			}
		})
	}
}

func TestCodeLimit(t *testing.T) {
	for _, extra := range []int{0, 1} {
		args := map[string]json.RawMessage{
			"code":     json.RawMessage(`"` + strings.Repeat("#", MaxCode+extra) + `"`),
			"language": json.RawMessage(`"python"`),
		}
		call, r := resolveArgs(args, world())
		if (r != nil) != (extra > 0) {
			t.Fatalf("%d bytes over the limit: %v", extra, r)
		}
		if r == nil && len(call.Code) != MaxCode {
			t.Errorf("code was cut to %d bytes", len(call.Code))
		}
		if r != nil && len(r.Message)+len(r.Suggestion) > 1000 {
			t.Errorf("the refusal grows with the code: %d bytes", len(r.Message)+len(r.Suggestion))
		}
	}
}

func TestNullIsNotGiven(t *testing.T) {
	args := parse(t, `{"code":"1","language":"python"}`)
	for _, a := range toolByName[ToolExecute].Arguments {
		if !a.Required {
			args[a.Name] = json.RawMessage(" null ")
		}
	}
	call, r := resolveArgs(args, world())
	if r != nil {
		t.Fatal(r)
	}
	want, r := resolveArgs(parse(t, `{"code":"1","language":"python"}`), world())
	if r != nil {
		t.Fatal(r)
	}
	if encode(t, call) != encode(t, want) {
		t.Errorf("nulls changed the call: %+v", call)
	}
	if call.Timeout != DefaultTimeout || call.OnLoss != Retry || call.StateMode != Stateless || call.Surface != Local {
		t.Errorf("defaults: %+v", call.Request)
	}
}
