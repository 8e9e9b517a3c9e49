package node_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

// Closing a name that does not exist closes nothing, in particular not the default session.
func TestClosingAnUnknownNameClosesNothing(t *testing.T) {
	w := fresh(t)
	ok(t, w.exec(args{"code": "k = 1", "state_mode": "stateful"}))
	for _, selector := range []args{{"session_name": "nope"}, {"session_name": "nope", "language": "python"}, {"session_id": 44}} {
		var closed gateway.Closed
		if status := w.post("/v1/tools/close_session", selector, &closed); status != 200 || closed.Closed || closed.Reason != "not_found" {
			t.Errorf("%v: status %d, want 200, %+v", selector, status, closed)
		}
	}
	value(t, w.exec(args{"code": "k", "state_mode": "stateful"}), "1")
}

// Closing a session ends the call that runs in it and those that wait for their turn. Nothing
// is retried, and the session does not reappear.
func TestClosingEndsTheCallsInASession(t *testing.T) {
	for name, extra := range map[string]args{"plain": {}, "atomic": {"atomic": true}} {
		t.Run(name, func(t *testing.T) {
			w := fresh(t)
			marks := filepath.Join(workspace(t, w), "marks")
			ok(t, w.keep("s", "import time"))
			running := make(chan surfaces.Result, 2)
			go func() {
				running <- w.exec(args{"code": "open('marks', 'a').write('x'); time.sleep(100)", "state_mode": "stateful", "session_name": "s"}.with(extra))
			}()
			eventually(t, "the call runs", func() bool { b, _ := os.ReadFile(marks); return len(b) > 0 })
			go func() {
				running <- w.exec(args{"code": "open('marks', 'a').write('y')", "state_mode": "stateful", "session_name": "s"})
			}()
			eventually(t, "another waits", func() bool { return runningCalls(w) == 2 })
			var closed gateway.Closed
			if w.post("/v1/tools/close_session", args{"session_name": "s"}, &closed); !closed.Closed {
				t.Fatal("not closed")
			}
			for range 2 {
				if res := code(t, <-running, surfaces.CodeStopped); res.Attempts > 1 || !strings.Contains(*res.Error, "closed") {
					t.Errorf("got %s, want Attempts at most 1, Error with \"closed\"", show(res))
				}
			}
			if b, err := os.ReadFile(marks); err != nil || string(b) != "x" {
				t.Errorf("the calls have left %q, %v", b, err)
			}
			var list gateway.SessionList
			w.post("/v1/tools/list_sessions", args{}, &list)
			for _, s := range list.Sessions {
				if s.SessionName != nil && *s.SessionName == "s" {
					t.Errorf("the session is back: %+v", s)
				}
			}
		})
	}
}

// An atomic call that ends the session's process has failed, whatever its exit status, and the
// session is as before.
func TestAtomicCallsThatExitAreRolledBack(t *testing.T) {
	w := fresh(t)
	for language, c := range map[string][3]string{
		"python": {"x = [1]", "x.append(2)\nimport os; os._exit(0)", "x"},
		"bash":   {"x=1", "x=2; exec true", "echo $x"},
		"zsh":    {"x=1", "x=2; exec true", "echo $x"},
	} {
		t.Run(language, func(t *testing.T) {
			w.needs(t, language)
			ok(t, w.keepShell(language, language, c[0]))
			res := code(t, w.exec(args{"code": c[1], "language": language, "state_mode": "stateful", "session_name": language, "atomic": true}), surfaces.CodeKilled)
			if res.StateLost.Loss != nil || res.Attempts != 1 {
				t.Errorf("got %s, want no loss, Attempts 1", show(res))
			}
			after := ok(t, w.keepShell(language, language, c[2]))
			if got := string(after.Result) + after.Stdout; got != "[1]" && got != "1\n" && got != "null1\n" || after.StateLost.Loss != nil {
				t.Errorf("got %s, want the state before the call, and no loss", show(after))
			}
		})
	}
}

// Reading a session whose process cannot be copied, because its code cannot be interrupted,
// takes no longer than the deadline, and the error says why.
func TestASessionThatDoesNotAnswer(t *testing.T) {
	w := fresh(t)
	ok(t, w.keep("s", `
import ctypes, threading, time
def hold():
    time.sleep(0.3)  # until the call has ended
    open("held", "w").close()
    ctypes.PyDLL(None).sleep(100)
threading.Thread(target=hold, daemon=True).start()`))
	held := filepath.Join(workspace(t, w), "held")
	eventually(t, "the interpreter is held", func() bool { _, err := os.Stat(held); return err == nil })
	res := code(t, w.exec(args{"code": "1", "state_mode": "read_only", "session_name": "s", "timeout_s": 1}), surfaces.CodeTimeout)
	if res.DurationMS > 8000 {
		t.Errorf("the answer took %.0f ms", res.DurationMS)
	}
	var refused surfaces.Result
	if status := w.post("/v1/tools/inspect_state", args{"session_name": "s"}, &refused); status != 503 || refused.Code == nil || *refused.Code != surfaces.CodeOwnerUnreachable {
		t.Errorf("status %d, want 503: %s", status, show(refused))
	}
}

// runningCalls counts the actor's calls that have not ended.
func runningCalls(w *world) (n int) {
	var list gateway.ExecutionList
	w.get("/v1/executions", &list)
	for _, c := range list.Executions {
		if c.Status == surfaces.StatusRunning {
			n++
		}
	}
	return n
}

// A session that is read and reset concurrently is read either as it was before or as it is
// after the reset.
func TestReadingDuringAReset(t *testing.T) {
	w := fresh(t)
	for range 5 {
		ok(t, w.keep("s", "x = 1"))
		reads := make(chan surfaces.Result, 8)
		for range cap(reads) {
			go func() { reads <- w.read("s", "'x' in globals()") }()
		}
		var info args
		if status := w.post("/v1/tools/reset_session", args{"session_name": "s"}, &info); status != 200 {
			t.Fatalf("status %d, want 200: %v", status, info)
		}
		var state args
		if status := w.post("/v1/tools/inspect_state", args{"session_name": "s"}, &state); status != 200 {
			t.Errorf("status %d, want 200: %v", status, state)
		}
		for range cap(reads) {
			if res := <-reads; res.Error != nil || string(res.Result) != "true" && string(res.Result) != "false" {
				t.Errorf("got %s, want true or false", show(res))
			}
		}
	}
}

// Many concurrent readers each get a copy: the session's main thread and the thread that
// answers the node fork at the same time.
func TestConcurrentReaders(t *testing.T) {
	w := fresh(t)
	ok(t, w.keep("s", "x = 1"))
	for range 15 {
		reads := make(chan surfaces.Result, 12)
		for range cap(reads) {
			go func() { reads <- w.read("s", "x") }()
		}
		for range cap(reads) {
			value(t, <-reads, "1")
		}
	}
}
