package node_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/locusrun/locus/node"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/sandbox"
	"github.com/locusrun/locus/surfaces"
)

// kill -9 between two calls is noticed at once and reported once, and read-only calls are not
// served from an empty session.
func TestKillBetweenCalls(t *testing.T) {
	for _, onLoss := range []string{"retry", "not_started", "report"} {
		t.Run(onLoss, func(t *testing.T) {
			w := fresh(t)
			ok(t, w.keep("s", "x = 1"))
			pid := string(ok(t, w.keep("s", "import os; os.getpid()")).Result)
			ok(t, w.once("import os; os.kill("+pid+", 9)"))
			eventually(t, "list_sessions shows the loss", func() bool {
				list := w.sessions(t)
				return len(list) == 1 && list[0].State == "lost" && list[0].StateLost.Loss != nil && *list[0].SessionName == "s"
			})
			for range 5 {
				res := code(t, w.read("s", "x"), surfaces.CodeSessionLost)
				if res.StateLost.Loss == nil || res.StateLost.Epoch == 0 {
					t.Fatalf("got %s, want a loss with an epoch", show(res))
				}
			}
			res := w.exec(args{"code": "'x' in globals()", "state_mode": "stateful", "session_name": "s", "on_loss": onLoss})
			value(t, res, "false")
			if res.Attempts != 1 || res.StateLost.Loss == nil || res.StateLost.Reason != "process_died" {
				t.Fatalf("got %s, want Attempts 1, loss reason \"process_died\"", show(res))
			}
			if res = w.keep("s", "1"); res.StateLost.Loss != nil {
				t.Fatal("told twice: " + show(res))
			}
		})
	}
}

func (w *world) sessions(t *testing.T) []gateway.SessionInfo {
	t.Helper()
	var list gateway.SessionList
	if status := w.post("/v1/tools/list_sessions", args{}, &list); status != 200 {
		t.Fatalf("list_sessions: status %d, want 200", status)
	}
	return list.Sessions
}

// The process dies during the call. Its side effects show how often the code was started.
func TestDeathDuringACall(t *testing.T) {
	for name, c := range map[string]struct {
		die    string
		code   surfaces.Code
		signal string
	}{
		"kill -9":   {"os.kill(os.getpid(), 9)", surfaces.CodeKilled, "SIGKILL"},
		"segfault":  {"import ctypes; ctypes.string_at(0)", surfaces.CodeSegfault, "SIGSEGV"},
		"hard exit": {"os._exit(3)", surfaces.CodeKilled, ""},
	} {
		for onLoss, starts := range map[string]int{"retry": 2, "not_started": 1, "report": 1} {
			t.Run(name+"/"+onLoss, func(t *testing.T) {
				w := fresh(t)
				ok(t, w.keep("s", "x = 1"))
				res := w.exec(args{
					"code":       "import os\nopen('starts', 'a').write('.')\n" + c.die,
					"state_mode": "stateful", "session_name": "s", "on_loss": onLoss,
				})
				code(t, res, c.code)
				if res.Attempts != starts || res.StateLost.Loss == nil || res.Exit == nil || res.Exit.Signal != c.signal {
					t.Fatalf("got %s, want Attempts %v, a loss, Exit.Signal %v", show(res), starts, c.signal)
				}
				value(t, w.once("len(open('starts').read())"), fmt.Sprint(starts))
				res = w.keep("s", "'x' in globals()")
				value(t, res, "false")
				if res.StateLost.Loss == nil {
					t.Fatal("the first call to the rebuilt session was not told: " + show(res))
				}
			})
		}
	}
}

// The first attempt is lost, the second succeeds.
func TestASuccessfulRetry(t *testing.T) {
	w := fresh(t)
	ok(t, w.keep("s", "x = 1"))
	res := w.keep("s", `
import os
print("attempt")
if not os.path.exists("once"):
    open("once", "w").close()
    os.kill(os.getpid(), 9)
'x' in globals()`)
	value(t, res, "false")
	if res.Attempts != 2 || res.StateLost.Loss == nil || res.Stdout != "attempt\n" {
		t.Fatalf("got %s, want Attempts 2, a loss, Stdout \"attempt\\n\"", show(res))
	}
}

func TestAKillAtTheDeadlineReportsTheLostState(t *testing.T) {
	w := fresh(t)
	ok(t, w.keep("s", "x = 1"))
	res := code(t, w.exec(args{
		"code": "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass", "state_mode": "stateful", "session_name": "s", "timeout_s": 1,
	}), surfaces.CodeTimeout)
	if res.Attempts != 1 || res.StateLost.Loss == nil || res.StateLost.Reason != "timeout" || res.Exit.Reason != "timeout" || res.Exit.Code != nil {
		t.Fatalf("got %s, want Attempts 1, loss reason \"timeout\", Exit.Reason \"timeout\", no Exit.Code", show(res))
	}
	res = w.keep("s", "'x' in globals()")
	value(t, res, "false")
	if res.StateLost.Loss == nil {
		t.Fatalf("got %s, want a loss", show(res))
	}
}

func TestAnInterruptAtTheDeadlineKeepsTheState(t *testing.T) {
	w := fresh(t)
	ok(t, w.keep("s", "x = 1"))
	for _, c := range []string{"import time; y = 2; time.sleep(60)", "while True: pass", "import asyncio; await asyncio.sleep(60)"} {
		res := code(t, w.exec(args{"code": c, "state_mode": "stateful", "session_name": "s", "timeout_s": 1}), surfaces.CodeTimeout)
		if res.StateLost.Loss != nil || res.DurationMS > 30_000 {
			t.Fatalf("got %s, want no loss, DurationMS at most 30000", show(res))
		}
	}
	value(t, w.keep("s", "[x, y]"), "[1,2]")
}

func TestMemoryLimit(t *testing.T) {
	w := start(t, t.TempDir(), func(c *node.Config) { c.Limits = sandbox.Limits{Memory: 256 << 20} })
	ok(t, w.keep("s", "x = 1"))
	hungry := "b = []\nwhile True: b.append(bytearray(1 << 20))"
	res := code(t, w.exec(args{"code": hungry, "state_mode": "stateful", "session_name": "s"}), surfaces.CodeOutOfMemory)
	if res.Attempts != 1 || res.StateLost.Loss == nil || res.Exit.Reason != "oom" {
		t.Fatalf("got %s, want Attempts 1, a loss, Exit.Reason \"oom\"", show(res))
	}
	value(t, w.keep("s", "'x' in globals()"), "false")
	ok(t, w.keep("s", "x = 1"))
	code(t, w.once(hungry), surfaces.CodeOutOfMemory)
	// A copy that uses too much memory is the process that dies.
	code(t, w.read("s", hungry), surfaces.CodeOutOfMemory)
	value(t, w.keep("s", "x"), "1")
}

// A restart of the node loses its sessions, keeps their names, and the next caller of each is
// told.
func TestARestartReportsLostSessions(t *testing.T) {
	dir := t.TempDir()
	w := start(t, dir)
	res := ok(t, w.keep("s", "x = 1"))
	epochs := []uint64{w.sessions(t)[0].Epoch}
	w.stop()
	for round := range 2 {
		w = start(t, dir)
		list := w.sessions(t)
		if len(list) != 1 || list[0].State != "lost" || *list[0].SessionName != "s" || list[0].SessionID != *res.SessionID {
			t.Fatalf("round %d: got %+v, want 1 session, list[0].State \"lost\", list[0].SessionName \"s\", list[0].SessionID %v", round, list, *res.SessionID)
		}
		code(t, w.read("s", "x"), surfaces.CodeSessionLost)
		again := w.keep("s", "'x' in globals()")
		value(t, again, "false")
		if again.StateLost.Loss == nil || again.StateLost.Reason != "node_restarted" || again.Attempts != 1 || again.SessionCreated {
			t.Fatalf("got %s, want loss reason \"node_restarted\", Attempts 1, no SessionCreated", show(again))
		}
		if next := w.keep("s", "1"); next.StateLost.Loss != nil {
			t.Fatalf("got %s, want no loss", show(next))
		}
		epochs = append(epochs, w.sessions(t)[0].Epoch)
		w.stop()
	}
	if !(epochs[0] < epochs[1] && epochs[1] < epochs[2]) {
		t.Fatalf("epochs do not grow: %v", epochs)
	}
}

// When the keeper of an actor dies, its sessions are lost, its next calls succeed, and other
// actors are not affected.
func TestADeadContainerIsReplaced(t *testing.T) {
	w := fresh(t)
	other := fresh(t)
	ok(t, w.keep("s", "x = 1"))
	ok(t, other.keep("s", "x = 1"))
	pid := string(ok(t, w.keep("s", "import os; os.getpid()")).Result)
	outside := outsidePID(t, strings.TrimSpace(pid), workspace(t, w))
	keeper := parentOf(t, parentOf(t, outside))
	killOwn(t, keeper)
	eventually(t, "the session is lost", func() bool { return w.sessions(t)[0].State == "lost" })
	res := w.keep("s", "'x' in globals()")
	value(t, res, "false")
	if res.StateLost.Loss == nil {
		t.Fatalf("got %s, want a loss", show(res))
	}
	value(t, other.keep("s", "x"), "1")
	if _, err := os.Stat("/proc/" + fmt.Sprint(outside)); err == nil {
		t.Fatal("a process outlives its container")
	}
}

// A call that runs when the keeper dies is retried in the new container, not in the dying one.
func TestRetriesUseTheNewContainer(t *testing.T) {
	w := fresh(t)
	for _, mode := range []string{"stateless", "stateful"} {
		t.Run(mode, func(t *testing.T) {
			for round := range 5 {
				stdout(t, w.shell("bash", "rm -f began"), "")
				a := args{"state_mode": mode, "background": true, "timeout_s": 600, "code": `
import os, time
again = os.path.exists("began")
open("began", "w").close()
print(os.getpid(), flush=True)
if not again: time.sleep(600)`}
				if mode == "stateful" {
					a["session_name"] = "s"
				}
				id := w.exec(a).CallID
				eventually(t, "the code runs", func() bool { return strings.HasSuffix(w.result(id).Stdout, "\n") })
				outside := outsidePID(t, strings.TrimSpace(w.result(id).Stdout), workspace(t, w))
				killOwn(t, parentOf(t, parentOf(t, outside)))
				if res := ok(t, w.ended(t, id)); res.Attempts != 2 {
					t.Fatalf("round %d: %s, want Attempts 2", round, show(res))
				}
			}
		})
	}
}
