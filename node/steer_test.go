package node_test

import (
	"strings"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

// running starts a call in the background and waits until its code runs.
func (w *world) running(t *testing.T, session, code string) (id string) {
	t.Helper()
	res := w.exec(args{"code": "print('running')\n" + code, "state_mode": "stateful", "session_name": session, "background": true, "timeout_s": 600})
	if res.Status != surfaces.StatusRunning || res.CallID == "" {
		t.Fatalf("got %s, want a running call with an id", show(res))
	}
	eventually(t, "the code runs", func() bool { return strings.HasPrefix(w.result(res.CallID).Stdout, "running\n") })
	return res.CallID
}

func (w *world) result(id string) surfaces.Result {
	w.t.Helper()
	var res surfaces.Result
	w.get("/v1/executions/"+id, &res)
	return res
}

func (w *world) ended(t *testing.T, id string) surfaces.Result {
	t.Helper()
	eventually(t, "the call has ended", func() bool { return w.result(id).Status != surfaces.StatusRunning })
	return w.result(id)
}

func (w *world) steer(t *testing.T, id, action string, body args) map[string]any {
	t.Helper()
	if body == nil {
		body = args{}
	}
	var out map[string]any
	if status := w.post("/v1/executions/"+id+"/"+action, body, &out); status != 200 {
		t.Fatalf("%s: status %d, want 200: %v", action, status, out)
	}
	return out
}

func TestStop(t *testing.T) {
	w := fresh(t)
	ok(t, w.keep("s", "x = 1"))
	id := w.running(t, "s", "import time; time.sleep(1000)")
	w.steer(t, id, "stop", nil)
	res := code(t, w.ended(t, id), surfaces.CodeStopped)
	if res.Exit.Reason != "stopped" || res.StateLost.Loss != nil || res.Attempts != 1 {
		t.Fatalf("got %s, want one attempt that was stopped, and no loss", show(res))
	}
	value(t, w.keep("s", "x"), "1")
}

// If a paused call is stopped, all its threads continue at once and it is interrupted:
// whichever thread runs first, the code's own thread gets the interrupt.
func TestStopWhilePaused(t *testing.T) {
	w := fresh(t)
	ok(t, w.keep("s", "import threading, time\nx = 1\nfor _ in range(20): threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()"))
	for range 4 {
		id := w.running(t, "s", "time.sleep(1000)")
		w.steer(t, id, "pause", nil)
		w.steer(t, id, "stop", nil)
		if res := code(t, w.ended(t, id), surfaces.CodeStopped); res.StateLost.Loss != nil || res.Exit.Signal != "SIGINT" {
			t.Fatalf("got %s, want an interrupt by SIGINT, and no loss", show(res))
		}
	}
	value(t, w.keep("s", "x"), "1")
}

// Steering that a shell does not support is refused, and is not an internal error.
func TestSteeringThatShellsDoNotSupport(t *testing.T) {
	w := fresh(t)
	for _, language := range []string{"bash", "sh", "zsh"} {
		t.Run(language, func(t *testing.T) {
			w.needs(t, language)
			id := w.exec(args{"code": "echo begun; sleep 1000", "language": language, "background": true}).CallID
			at := "/v1/executions/" + id
			eventually(t, "it runs", func() bool { return w.result(id).Stdout != "" })
			w.refuses("POST", at+"/interject", args{"message": "hello"}, 422, "takes no messages")
			if told := w.steer(t, id, "ask", nil); told["stdout"] != "begun\n" {
				t.Error(told)
			}
			w.steer(t, id, "stop", nil)
			code(t, w.ended(t, id), surfaces.CodeStopped)
		})
	}
}

// A call whose process dies of the stop's interrupt is not retried: otherwise the code would
// run again although it was stopped.
func TestStoppedCodeIsNotRetried(t *testing.T) {
	w := fresh(t)
	for _, tt := range []struct{ language, mode, code string }{
		{"python", "stateless", "import os, signal, time; signal.signal(signal.SIGINT, signal.SIG_DFL)\nopen('began', 'a').write('.'); time.sleep(1000)"},
		{"python", "stateful", "import os, signal, time; signal.signal(signal.SIGINT, signal.SIG_DFL)\nopen('began', 'a').write('.'); time.sleep(1000)"},
		{"python", "stateful", "import os, signal, time; signal.signal(signal.SIGINT, lambda *_: os._exit(0))\nopen('began', 'a').write('.'); time.sleep(1000)"},
		{"sh", "stateful", "trap - INT; printf . >>began; while :; do :; done"},
		{"zsh", "stateful", "trap - INT; printf . >>began; while :; do :; done"},
	} {
		t.Run(tt.language+" "+tt.mode, func(t *testing.T) {
			w.needs(t, tt.language)
			began := func() string { return w.shell("bash", "cat began 2>/dev/null; true").Stdout }
			stdout(t, w.shell("bash", "rm -f began"), "")
			a := args{"language": tt.language, "code": tt.code, "state_mode": tt.mode, "background": true, "timeout_s": 600}
			if tt.mode == "stateful" {
				a["session_name"] = "dies of it " + tt.language
			}
			id := w.exec(a).CallID
			eventually(t, "the code runs", func() bool { return began() == "." })
			w.steer(t, id, "stop", nil)
			res := code(t, w.ended(t, id), surfaces.CodeStopped)
			if res.Exit == nil || res.Exit.Reason != "stopped" || res.Attempts != 1 || began() != "." {
				t.Fatalf("began %q: %s", began(), show(res))
			}
			if lost := res.StateLost.Loss; (lost != nil) != (tt.mode == "stateful") || lost != nil && lost.Reason != "stopped" {
				t.Fatalf("got %s, want a loss with reason stopped: %v", show(res), tt.mode == "stateful")
			}
		})
	}
}

// standsStill waits until the size of a paused call's output no longer changes, and returns it.
func standsStill(t *testing.T, size func() int) (still int) {
	t.Helper()
	eventually(t, "output stands still", func() bool {
		still = size()
		for range 20 {
			if size() != still {
				return false
			}
		}
		return true
	})
	return still
}

func TestPauseStopsTheCodeAndItsClock(t *testing.T) {
	w := fresh(t)
	id := w.running(t, "s", "import time\nn = 0\nwhile n < 10**9:\n  n += 1\n  print(n)\n  time.sleep(0.001)")
	w.steer(t, id, "pause", nil)
	w.steer(t, id, "pause", nil)
	size := func() int { return len(w.result(id).Stdout) }
	before := standsStill(t, size)
	var list struct {
		Executions []map[string]any `json:"executions"`
	}
	w.get("/v1/executions", &list)
	if list.Executions[0]["paused"] != true {
		t.Fatalf("got %v, want it paused", list.Executions[0])
	}
	w.steer(t, id, "resume", nil)
	eventually(t, "output goes on", func() bool { return size() > before })
	w.steer(t, id, "pause", nil)
	w.steer(t, id, "stop", nil)
	code(t, w.ended(t, id), surfaces.CodeStopped)
}

// Invalid arguments of a steering action are refused and change nothing.
func TestInvalidSteeringIsRefused(t *testing.T) {
	w := fresh(t)
	id := w.running(t, "s", "import asyncio\nawait asyncio.sleep(1000)")
	for _, tt := range []struct {
		action string
		body   any
		says   string
	}{
		{"interject", args{}, "no message"},
		{"interject", args{"message": ""}, "empty"},
		{"interject", args{"message": nil}, "no message"},
		{"interject", args{"message": 5}, "at message there must be a string, not a number"},
		{"interject", args{"message": "x", "cod": 1}, "cod"},
		{"answer", args{}, "no answer"},
		{"ask", args{"cod": "1"}, "cod"},
		{"ask", args{"message": "1"}, "message"},
		{"ask", args{"code": "1", "timeout_s": "x"}, "at timeout_s there must be a number"},
		{"ask", args{"code": "1", "timeout_s": -1}, "timeout_s = -1"},
		{"ask", args{"code": "1", "timeout_s": 1e300}, "timeout_s = 1e+300"},
		{"ask", []int{1}, "must be an object, not a list"},
		{"pause", args{"message": "x"}, "takes no arguments"},
	} {
		var said surfaces.Result
		if status := w.post("/v1/executions/"+id+"/"+tt.action, tt.body, &said); status != 422 || said.Suggestion == nil || !strings.Contains(*said.Error, tt.says) {
			t.Errorf("%s %v: status %d: %s, want 422 and a message with %q", tt.action, tt.body, status, show(said), tt.says)
		}
	}
	w.steer(t, id, "pause", nil)
	for _, action := range []string{"ask", "interject"} {
		var said surfaces.Result
		if status := w.post("/v1/executions/"+id+"/"+action, map[string]args{"ask": {"code": "1"}, "interject": {"message": "x"}}[action], &said); status != 422 || !strings.Contains(*said.Error, "it is paused") || !strings.Contains(*said.Suggestion, "resume") {
			t.Errorf("%s of a paused call: status %d: %s, want 422 and a message with %q and %q", action, status, show(said), "it is paused", "resume")
		}
	}
	w.steer(t, id, "resume", nil)
	w.steer(t, id, "resume", nil)
	w.steer(t, id, "stop", nil)
	w.ended(t, id)
	var said surfaces.Result
	if w.post("/v1/executions/"+id+"/resume", args{}, &said); !strings.Contains(*said.Error, "has ended") {
		t.Errorf("got %s, want an error that says that the call has ended", show(said))
	}
}

func TestSteeringAnEndedCall(t *testing.T) {
	w := fresh(t)
	res := ok(t, w.once("1"))
	var out map[string]any
	for _, action := range []string{"pause", "resume", "stop", "ask", "interject", "answer"} {
		if status := w.post("/v1/executions/"+res.CallID+"/"+action, args{}, &out); status != 422 {
			t.Errorf("%s: status %d, want 422: %v", action, status, out)
		}
	}
	if status := w.post("/v1/executions/nope/stop", args{}, &out); status != 404 {
		t.Errorf("status %d, want 404: %v", status, out)
	}
}
