package node_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

func TestEveryBusyLoopEndsAtItsDeadline(t *testing.T) {
	for name, c := range map[string]args{
		"loop":             {"code": "while True: pass"},
		"sleep":            {"code": "import time; time.sleep(100)"},
		"stubborn":         {"code": "while True:\n  try:\n    while True: pass\n  except BaseException: pass"},
		"ignores":          {"code": "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(100)"},
		"dies of it":       {"code": "import signal, time; signal.signal(signal.SIGINT, signal.SIG_DFL); time.sleep(100)"},
		"leaves by it":     {"code": "import os, signal, time; signal.signal(signal.SIGINT, lambda *_: os._exit(0)); time.sleep(100)"},
		"in C":             {"code": "sum(range(10**12))"},
		"prints and hangs": {"code": "for i in range(10): print(i)\nimport time; time.sleep(100)"},
		"awaits":           {"code": "import asyncio; await asyncio.Event().wait()"},
		"a waiting child":  {"code": "import subprocess; subprocess.run(['sleep', '100'])"},
		"bash pipe":        {"code": "sleep 100 | cat; echo hello", "language": "bash"},
		"bash loop":        {"code": "while :; do :; done", "language": "bash"},
		"bash ignores":     {"code": "trap '' INT; sleep 100; sleep 100", "language": "bash"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := fresh(t)
			if l, ok := c["language"]; ok {
				w.needs(t, l.(string))
			}
			res := code(t, w.exec(c.with(args{"timeout_s": 1})), surfaces.CodeTimeout)
			if res.Exit == nil || res.Exit.Reason != "timeout" || res.Exit.Code != nil || res.Attempts != 1 {
				t.Fatalf("got %s, want Exit.Reason \"timeout\", no Exit.Code, Attempts 1", show(res))
			}
			if strings.Contains(res.Stdout, "hello") {
				t.Fatal("the code went on: " + show(res))
			}
			if name == "prints and hangs" && res.Stdout != "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n" {
				t.Fatal(show(res))
			}
		})
	}
}

func TestNothingRunsOnAfterADeadline(t *testing.T) {
	w := fresh(t)
	code(t, w.exec(args{"code": "import time; time.sleep(3); x = 1", "state_mode": "stateful", "session_name": "s", "timeout_s": 1}), surfaces.CodeTimeout)
	value(t, w.keep("s", "import time; time.sleep(3); 'x' in globals()"), "false")
}

func TestManyDeadlinesAtOnce(t *testing.T) {
	w := fresh(t)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			res := w.exec(args{"code": "while True: pass", "timeout_s": 0.5 + float64(i%4)/4})
			if res.Code == nil || *res.Code != surfaces.CodeTimeout {
				t.Errorf("got %s, want Code %v", show(res), surfaces.CodeTimeout)
			}
		})
	}
	all.Wait()
	value(t, w.once("1"), "1")
}

// However a stateless call ends, none of its processes survive it, daemons included.
func TestNothingOutlivesAStatelessCall(t *testing.T) {
	daemon := `
import os, subprocess, sys
subprocess.Popen(["sleep", "1000"])
subprocess.Popen(["setsid", "sleep", "1000"])
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        import signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGHUP, signal.SIG_IGN)
        os.execvp("sleep", ["sleep", "1000"])
    os._exit(0)
os.wait()
`
	for name, c := range map[string]args{
		"ends":      {"code": daemon},
		"raises":    {"code": daemon + "\nraise ValueError"},
		"times out": {"code": daemon + "\nwhile True: pass", "timeout_s": 1},
		"dies":      {"code": daemon + "\nos.kill(os.getpid(), 9)", "on_loss": "report"},
	} {
		t.Run(name, func(t *testing.T) {
			w := fresh(t)
			dir := workspace(t, w)
			w.exec(c)
			eventually(t, "every sleep is gone", func() bool {
				for _, pid := range inWorkspace(dir) {
					if strings.HasPrefix(field(fmt.Sprintf("/proc/%d", pid), "Name"), "sleep") {
						return false
					}
				}
				return true
			})
		})
	}
}

// A deadline kills what its own call has started, and nothing that an earlier call left
// running on purpose.
func TestADeadlineSparesEarlierJobs(t *testing.T) {
	w := fresh(t)
	dir := workspace(t, w)
	ok(t, w.keep("s", "import subprocess\nearly = subprocess.Popen(['sleep', '1000'])"))
	code(t, w.exec(args{
		"code": "late = subprocess.Popen(['setsid', 'sleep', '2000'])\nimport time; time.sleep(100)", "state_mode": "stateful", "session_name": "s", "timeout_s": 1,
	}), surfaces.CodeTimeout)
	// A process that had not left the call's process group yet got the interrupt.
	value(t, w.keep("s", "[early.poll(), late.wait(30) in (-9, -2)]"), "[null,true]")
	var closed gateway.Closed
	w.post("/v1/tools/close_session", args{"session_name": "s"}, &closed)
	eventually(t, "closing the session ends its jobs", func() bool {
		for _, pid := range inWorkspace(dir) {
			if field(fmt.Sprintf("/proc/%d", pid), "Name") == "sleep" {
				return false
			}
		}
		return true
	})
}

func TestClosingASessionFreesItsPort(t *testing.T) {
	w := fresh(t)
	res := ok(t, w.keep("s", `
import http.server, threading
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
server.server_port`))
	addr := "127.0.0.1:" + string(res.Result)
	conn, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	var closed gateway.Closed
	if w.post("/v1/tools/close_session", args{"session_name": "s"}, &closed); !closed.Closed {
		t.Fatal("not closed")
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if w.post("/v1/tools/close_session", args{"session_name": "s"}, &closed); closed.Closed || closed.Reason != "not_found" {
		t.Fatalf("closing again: %+v", closed)
	}
}

// A caller that goes away stops its call.
func TestADisconnectedCallerStopsItsCall(t *testing.T) {
	w := fresh(t)
	ctx, cancel := context.WithCancel(context.Background())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if resp, err := w.request(ctx, "POST", "/v1/tools/execute_code", args{
			"code": "import time; time.sleep(1000)", "language": "python", "state_mode": "stateful", "session_name": "s", "timeout_s": 2000,
		}); err == nil {
			resp.Body.Close()
		}
	}()
	eventually(t, "the session is busy", func() bool {
		list := w.sessions(t)
		return len(list) == 1 && list[0].State == "busy"
	})
	cancel()
	<-gone
	res := w.exec(args{"code": "1", "state_mode": "stateful", "session_name": "s", "timeout_s": 60})
	value(t, res, "1")
}

// An accepted call has its place in the queue: calls that are sent later run after it.
func TestCallsOnOneSessionRunInOrder(t *testing.T) {
	w := fresh(t)
	ok(t, w.keep("s", "seen = []"))
	for i := range 30 {
		res := w.exec(args{"code": fmt.Sprintf("import time; time.sleep(0.01); seen.append(%d)", i), "state_mode": "stateful", "session_name": "s", "background": true})
		if res.Status != surfaces.StatusRunning && res.Status != surfaces.StatusDone {
			t.Fatal(show(res))
		}
	}
	value(t, w.keep("s", "seen == list(range(30))"), "true")
}

func TestOtherSessionsNeverWait(t *testing.T) {
	w := fresh(t)
	ok(t, w.keep("free", "x = 1"))
	var busy sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	for i := range 10 {
		ok(t, w.keep(fmt.Sprint("busy", i), "y = 2"))
		busy.Go(func() {
			if resp, err := w.request(ctx, "POST", "/v1/tools/execute_code", args{
				"code": "import time; time.sleep(1000)", "language": "python", "state_mode": "stateful", "session_name": fmt.Sprint("busy", i), "timeout_s": 2000,
			}); err == nil {
				resp.Body.Close()
			}
		})
	}
	eventually(t, "ten sessions are busy", func() bool {
		n := 0
		for _, s := range w.sessions(t) {
			if s.State == "busy" {
				n++
			}
		}
		return n == 10
	})
	value(t, w.keep("free", "x"), "1")
	value(t, w.once("2"), "2")
	// A read-only call runs concurrently with the running call.
	value(t, w.read("busy3", "y"), "2")
	// A call that waits for a busy session ends at its own deadline and has not run.
	res := code(t, w.exec(args{"code": "y = 3", "state_mode": "stateful", "session_name": "busy0", "timeout_s": 0.3}), surfaces.CodeTimeout)
	if res.StateLost.Loss != nil {
		t.Fatalf("got %s, want no loss", show(res))
	}
	value(t, w.read("busy0", "y"), "2")
	cancel()
	busy.Wait()
}

// A cold start does not eat the call's own time.
func TestAColdStartDoesNotCountTowardsTheDeadline(t *testing.T) {
	w := fresh(t)
	value(t, w.exec(args{"code": "1", "timeout_s": 0.5}), "1")
}

func TestADefaultDeadlineApplies(t *testing.T) {
	if surfaces.DefaultTimeout != 120*time.Second {
		t.Fatal("the contract says 120 s")
	}
}
