package mcp

import (
	"encoding/json"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

func ptr[T any](v T) *T { return &v }

func TestText(t *testing.T) {
	failed := func(code surfaces.Code, message string) surfaces.Result {
		return surfaces.Failed(surfaces.Partial{CallID: "c1"}, code, message)
	}
	raised := failed(surfaces.CodeException, "ValueError: no")
	raised.Exception = &surfaces.Exception{Type: "ValueError", Message: "no", Traceback: "Traceback:\n  line 2\nValueError: no\n", Line: 2}
	raised.Stdout = "a\nb\n"
	raised.Truncated = &surfaces.Truncation{Stdout: &surfaces.Shown{Shown: 4, Total: 4000}}
	killed := failed(surfaces.CodeTimeout, "too late")
	killed.Exit = &surfaces.Exit{Signal: "SIGKILL", Reason: "timeout"}
	killed.StateLost = surfaces.StateLost{Loss: &surfaces.Loss{Reason: "killed", At: "2026-01-01T00:00:00Z", Epoch: 1}}
	killed.Notice = []surfaces.Notice{{Kind: "state_lost", Text: "the same again"}, {Kind: "disk", Text: "not isolated"}}
	busy := failed(surfaces.CodeNoCapacity, "full")
	busy.RetryAfterS, busy.Suggestion = ptr(1.5), ptr("Call again.")
	session := done("1")
	session.SessionID, session.SessionName, session.Language, session.SessionCreated, session.VenvID = ptr(3), ptr("n"), ptr(surfaces.Python), true, ptr(2)
	shell := done("null")
	shell.Exit = &surfaces.Exit{Code: ptr(3)}
	fine := done("null")
	fine.Exit = &surfaces.Exit{Code: ptr(0)}
	repr, str := done(`"<object>"`), done(`"text"`)
	repr.ResultType, str.ResultType = ptr("Thing"), ptr("str")
	running := surfaces.Result{CallID: "c9", Status: surfaces.StatusRunning}

	for name, tt := range map[string]struct {
		r    surfaces.Result
		want string
	}{
		"nothing":   {fine, "done, without output or a result\n"},
		"exception": {raised, "stdout (4 of 4000 bytes; the middle is cut):\na\nb\nfailed (exception): ValueError: no\ntraceback:\nTraceback:\n  line 2\nValueError: no\n"},
		"killed":    {killed, "failed (timeout): too late\nended by: SIGKILL timeout\nstate lost: killed at 2026-01-01T00:00:00Z; what the session held before is gone\nnotice: disk: not isolated\n"},
		"busy":      {busy, "refused (no_capacity): full\nsuggestion: Call again.\ntry again in: 1.5 s\n"},
		"session":   {session, "result: 1\nsession: \"n\" python 3 in venv 2 (new)\n"},
		"shell":     {shell, "exit code: 3\n"},
		"repr":      {repr, "result (Thing): <object>\n"},
		"string":    {str, "result (str): \"text\"\n"},
		"running":   {running, "running: call c9 goes on in the background. Its result: the resource locus://calls/c9, locus calls show c9, or, where the call has an idempotency_key, execute_code again with the same arguments but background, which waits for it\n"},
	} {
		if got := text(tt.r); got != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, tt.want)
		}
	}
}

func TestTailCutsBetweenCharacters(t *testing.T) {
	for _, tt := range []struct {
		s     string
		limit int
		want  string
	}{{"aé", 1, ""}, {"aé", 2, "é"}, {"aéb", 2, "b"}, {"\xa9\xa9", 1, ""}} {
		if got := tail(tt.s, tt.limit); got != tt.want {
			t.Errorf("tail(%q, %d) is %q", tt.s, tt.limit, got)
		}
	}
	if _, err := json.Marshal(tail("\xff\xfe", 1)); err != nil {
		t.Error(err)
	}
}
