package surfaces

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// combinations walks every way to give the coordinates of a call, each argument
// with the values that matter for the mesh of world: one that leads somewhere, one
// that leads elsewhere, one that leads nowhere, and none.
func combinations(visit func(args map[string]json.RawMessage)) {
	axes := []struct {
		name   string
		values []string
	}{
		{"language", []string{`"python"`, `"bash"`, `"zsh"`, `"ruby"`}},
		{"state_mode", []string{"", `"stateless"`, `"stateful"`, `"read_only"`}},
		{"session_id", []string{"", `0`, `1`, `9`, `-1`}},
		{"session_name", []string{"", `"sales"`, `"build"`, `"model"`, `"weather"`}},
		{"venv_id", []string{"", `1`, `9`}},
		{"surface", []string{"", `"assistant_vm"`, `"user_machine"`}},
		{"machine", []string{"", `"laptop"`, `"server"`}},
		{"atomic", []string{"", `true`}},
	}
	args := map[string]json.RawMessage{"code": json.RawMessage(`"1"`)}
	var walk func(i int)
	walk = func(i int) {
		if i == len(axes) {
			visit(args)
			return
		}
		for _, v := range axes[i].values {
			delete(args, axes[i].name)
			if v != "" {
				args[axes[i].name] = json.RawMessage(v)
			}
			walk(i + 1)
		}
		delete(args, axes[i].name)
	}
	walk(0)
}

// TestEveryCombination checks the promises of validation on each of them: the table
// decides, the fix mends, the suggestion can be followed in all its ways.
func TestEveryCombination(t *testing.T) {
	for name, v := range map[string]View{"world": world(), "bare": bare(), "full": full()} {
		t.Run(name, func(t *testing.T) {
			if v.MaxSessions == 0 {
				v.MaxSessions = MaxSessions
			}
			t.Parallel()
			total, refused, mechanical := 0, 0, 0
			combinations(func(args map[string]json.RawMessage) {
				total++
				call, r := resolveArgs(args, v)
				checkAgainstTable(t, args, v, call, r)
				if r == nil {
					return
				}
				refused++
				if r.Fix != nil {
					mechanical++
				}
				checkWords(t, ToolExecute, args, r)
				checkFix(t, ToolExecute, args, v, r)
				if total%7 == 0 || !testing.Short() {
					checkFollowing(t, ToolExecute, args, v, r)
				}
			})
			t.Logf("%d combinations, %d refused, %d of them with a fix", total, refused, mechanical)
			if refused == total || refused == 0 || mechanical < refused/3 {
				t.Error("the combinations do not tell calls apart")
			}
		})
	}
}

func checkAgainstTable(t *testing.T, args map[string]json.RawMessage, v View, call Call, r *Refusal) {
	var a asked
	if err := json.Unmarshal([]byte(encode(t, args)), &a); err != nil {
		t.Fatal(err)
	}
	if a.ID != nil && *a.ID < 0 {
		if r == nil || r.Code != CodeInvalidArgument {
			t.Fatalf("%s: %v, want a refusal, Code %v", encode(t, args), r, CodeInvalidArgument)
		}
		return
	}
	codes := contract(a, v)
	switch {
	case r == nil && len(codes) == 0:
		checkCall(t, call, a, v)
	case r == nil:
		t.Fatalf("%s went through, but the table says %v", encode(t, args), codes)
	case !slices.Contains(codes, r.Code):
		t.Fatalf("%s was refused with %s, but the table says %v: %s", encode(t, args), r.Code, codes, r.Message)
	}
}

// TestWords keeps what people read under review: every row's sentence and
// suggestion, in one file.
func TestWords(t *testing.T) {
	var b strings.Builder
	for _, body := range []string{
		`{"language":"python"}`,
		`{"code":"1"}`,
		`{"code":"a\u0000","language":"python"}`,
		`{"code":"1","langauge":"pyhton","timeout":"30s"}`,
		`{"code":"1","language":"ruby"}`,
		`{"code":"1","language":"zsh","session_name":"build","state_mode":"stateful"}`,
		`{"code":"1","language":"python","state_mode":"magic","session_name":"weather"}`,
		`{"code":"1","language":"python","surface":"moon"}`,
		`{"code":"1","language":"python","session_name":"weather"}`,
		`{"code":"1","language":"python","session_name":"a/b","state_mode":"stateless"}`,
		`{"code":"1","language":"python","state_mode":"read_only"}`,
		`{"code":"1","language":"sh","state_mode":"read_only","session_id":4}`,
		`{"code":"1","language":"python","state_mode":"read_only","session_name":"slaes"}`,
		`{"code":"1","language":"python","state_mode":"read_only","session_name":"weather","session_id":9}`,
		`{"code":"1","language":"python","state_mode":"stateful","session_name":"sales","session_id":2}`,
		`{"code":"1","language":"bash","state_mode":"stateful","session_name":"model"}`,
		`{"code":"1","language":"python","venv_id":7}`,
		`{"code":"1","language":"bash","venv_id":1}`,
		`{"code":"1","language":"python","surface":"assistant_vm","state_mode":"stateful","session_name":"sales","venv_id":1,"atomic":true}`,
		`{"code":"1","language":"python","surface":"user_machine"}`,
		`{"code":"1","language":"python","surface":"user_machine","machine":"server"}`,
		`{"code":"1","language":"python","machine":"laptop"}`,
		`{"code":"1","language":"python","atomic":true}`,
		`{"code":"1","language":"bash","venv_id":1,"atomic":true,"machine":"x","colour":1,"session_id":"2"}`,
	} {
		_, r := Resolve([]byte(body), world())
		if r == nil {
			t.Fatalf("%s was not refused", body)
		}
		fmt.Fprintf(&b, "%s\n  %s: %s\n  %s\n  fix %s\n\n", body, r.Code, r.Message, r.Suggestion, encode(t, r.Fix))
	}
	for _, body := range []string{`{"session_name":"weather"}`, `{"session_id":1}`, `{}`} {
		_, r := ResolveSelector([]byte(body), ToolReset, world())
		fmt.Fprintf(&b, "reset_session %s\n  %s: %s\n  %s\n  fix %s\n\n", body, r.Code, r.Message, r.Suggestion, encode(t, r.Fix))
	}
	_, r := Resolve([]byte(`{"code":"1","language":"sh","state_mode":"stateful","session_name":"weather"}`), full())
	fmt.Fprintf(&b, "at the limit\n  %s: %s\n  %s\n", r.Code, r.Message, r.Suggestion)
	const file = "testdata/words.txt"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != b.String() {
		t.Errorf("the words differ from %s:\n%s", file, b.String())
	}
}
