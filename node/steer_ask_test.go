package node_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

func TestAskReadsABusySession(t *testing.T) {
	w := fresh(t)
	ok(t, w.keep("s", "progress = {'done': 0}"))
	id := w.running(t, "s", "import time\ndef work():\n  progress['done'] = 7\n  print('seven')\n  time.sleep(1000)\nwork()")
	eventually(t, "the work is at seven", func() bool { return strings.Contains(w.result(id).Stdout, "seven") })
	out := w.steer(t, id, "ask", args{"code": "progress['done'] += 1; progress['done']"})
	if got := fmt.Sprint(out["result"].(map[string]any)["result"]); got != "8" {
		t.Fatalf("got %v, want the result 8", out)
	}
	if first := "Traceback (most recent call last):\n  File \"<cell 2>\""; !strings.HasPrefix(out["stack"].(string), first) {
		t.Fatalf("the stack is %v", out["stack"])
	}
	if !strings.Contains(out["stack"].(string), "work") || !strings.Contains(out["stdout"].(string), "seven") {
		t.Fatalf("got %v, want a stack in work and the output so far", out)
	}
	value(t, w.read("s", "progress['done']"), "7")
	w.steer(t, id, "stop", nil)
	value(t, w.keep("s", "progress['done']"), "7")
}

// A question to a call that is about to end is answered, or refused because the call has
// ended.
func TestAskOfACallThatEnds(t *testing.T) {
	w := fresh(t)
	for range 10 {
		id := w.exec(args{"code": "import time\nprint('here', flush=True)\ntime.sleep(1000)", "background": true}).CallID
		eventually(t, "the code runs", func() bool { return w.result(id).Stdout != "" })
		w.steer(t, id, "stop", nil)
		eventually(t, "nothing can be asked any more", func() bool {
			var out struct {
				Result surfaces.Result
				Code   string
			}
			status := w.post("/v1/executions/"+id+"/ask", args{"code": "1"}, &out)
			if code := out.Result.Code; status > 422 || code != nil && *code == surfaces.CodeInternal {
				t.Fatalf("status %d: %s", status, show(out.Result))
			}
			return status == 422 && w.result(id).Status != surfaces.StatusRunning
		})
	}
}

// A shell that runs a command cannot be copied. A question to it gets the running commands and
// the output so far at once, and code is refused.
func TestAskOfABusyShell(t *testing.T) {
	w := fresh(t)
	for _, in := range []args{{"state_mode": "stateless"}, {"state_mode": "stateful", "session_name": "s"}} {
		in["code"], in["language"], in["background"] = "echo so far; sleep 1000", "bash", true
		id := w.exec(in).CallID
		eventually(t, "it has written", func() bool { return strings.Contains(w.result(id).Stdout, "so far") })
		eventually(t, "it runs its command", func() bool {
			return strings.Contains(w.steer(t, id, "ask", nil)["stack"].(string), "sleep 1000")
		})
		out := w.steer(t, id, "ask", args{"code": "echo $x"})
		said := out["result"].(map[string]any)
		if said["status"] != "refused" || said["code"] != "invalid_argument" || !strings.Contains(said["error"].(string), "bash") {
			t.Errorf("got %v, want a refusal with code invalid_argument that names bash", said)
		}
		if fix := fmt.Sprint(said["fix"]); fix != "map[drop:[code] set:map[]]" {
			t.Errorf("the fix is %s", fix)
		}
		if !strings.Contains(out["stack"].(string), "sleep 1000") || !strings.Contains(out["stdout"].(string), "so far") {
			t.Errorf("got %v, want a stack in sleep 1000 and the output so far", out)
		}
		w.steer(t, id, "stop", nil)
		code(t, w.ended(t, id), surfaces.CodeStopped)
	}
}
