package node_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/locusrun/locus/node"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

// quick detects a lost node soon. It is for tests on one machine.
func quick(c *node.Config) {
	c.Lease = registry.LeaseConfig{TTL: 2 * time.Second, Grace: time.Second, Margin: 500 * time.Millisecond, HoldFor: 20 * time.Second}
	c.Heartbeat = 500 * time.Millisecond
}

// mesh starts the nodes of one mesh, and waits until three of them vote.
func mesh(t testing.TB, nodes int, change ...func(*node.Config)) []*world {
	t.Helper()
	change = append([]func(*node.Config){quick}, change...)
	all := []*world{start(t, t.TempDir(), change...)}
	for len(all) < nodes {
		all = append(all, all[0].joined(t.TempDir(), change...))
	}
	eventually(t, "the nodes vote", func() bool {
		voters := 0
		for _, n := range all[len(all)-1].nodes() {
			if n.Voter {
				voters++
			}
		}
		return voters == min((nodes-1)|1, 5)
	})
	for _, w := range all[1:] {
		w.token = all[0].token // one actor, seen through every node
	}
	// On a loaded machine the leader may change once more while the last node becomes a voter.
	for _, w := range all {
		eventually(t, "the registry answers", func() bool {
			var none surfaces.Result
			return w.post("/v1/tools/close_session", args{"session_name": "nobody"}, &none) == 200
		})
	}
	return all
}

// joined starts a node that joins the mesh of w.
func (w *world) joined(dir string, change ...func(*node.Config)) *world {
	w.t.Helper()
	var token gateway.TokenInfo
	if status := w.post("/v1/tokens", args{"role": "node"}, &token); status != 200 {
		w.t.Fatalf("no token: status %d, want 200", status)
	}
	change = append(change, func(c *node.Config) { c.Join, c.Token = w.status().Listen, token.Token })
	return start(w.t, dir, change...)
}

func (w *world) status() (s gateway.StatusInfo) {
	w.get("/v1/status", &s)
	return s
}

func (w *world) nodes() []gateway.NodeInfo {
	var list gateway.NodeList
	w.get("/v1/nodes", &list)
	return list.Nodes
}

// id returns the node's id.
func (w *world) id() string { return w.status().Node }

// owner returns the node of a session, and the other nodes.
func owner(t testing.TB, all []*world, res surfaces.Result) (own *world, others []*world) {
	t.Helper()
	for _, w := range all {
		if w.id() == res.Node {
			own = w
		} else {
			others = append(others, w)
		}
	}
	if own == nil {
		t.Fatalf("no node is %q", res.Node)
	}
	return own, others
}

func TestAnyNodeAnswersAnyCall(t *testing.T) {
	all := mesh(t, 3)
	made := ok(t, all[0].keep("s", "x = 40"))
	own, others := owner(t, all, made)
	for i, w := range append(others, own) {
		value(t, w.keep("s", fmt.Sprintf("x += 1; x - %d", i)), "41")
		value(t, w.read("s", "x"), fmt.Sprint(41+i))
		value(t, w.once("6*7"), "42")
	}
	away := others[0]

	t.Run("output of every kind", func(t *testing.T) {
		res := ok(t, away.keep("s", `
import sys
print("to stdout"); print("to stderr", file=sys.stderr)
sys.stdout.buffer.write(b"\xff\n")
class Shown:
    def _repr_html_(self): return "<b>shown</b>"
Shown()`))
		if res.Stdout != "to stdout\n\ufffd\n" || res.Stderr != "to stderr\n" || len(res.Display) != 1 || res.Node != made.Node {
			t.Fatalf("got %s, want Stdout \"to stdout\\n\\ufffd\\n\", Stderr \"to stderr\\n\", 1 Display, Node %v", show(res), made.Node)
		}
	})
	t.Run("much output", func(t *testing.T) {
		res := ok(t, away.keep("s", "import sys\nprint('first', file=sys.stderr)\nfor i in range(300000): print('line', i)\nprint('last', file=sys.stderr)"))
		direct := ok(t, own.keep("s", "import sys\nprint('first', file=sys.stderr)\nfor i in range(300000): print('line', i)\nprint('last', file=sys.stderr)"))
		if res.Stdout != direct.Stdout || res.Stderr != direct.Stderr || res.Truncated == nil || *res.Truncated.Stdout != *direct.Truncated.Stdout {
			t.Fatalf("through another node: %+v, on the owner: %+v", res.Truncated.Stdout, direct.Truncated.Stdout)
		}
	})
	t.Run("the tools", func(t *testing.T) {
		for _, w := range all {
			if s := w.sessions(t); len(s) != 1 || s[0].Node != made.Node || s[0].State != "live" || s[0].MemoryBytes == 0 || s[0].Calls < 3 {
				t.Fatalf("got %+v, want 1 session, s[0].Node %v, s[0].State \"live\", s[0].MemoryBytes other than 0, s[0].Calls at least 3", s, made.Node)
			}
			var seen gateway.Inspection
			if status := w.post("/v1/tools/inspect_state", args{"session_name": "s", "detail": "names"}, &seen); status != 200 || !strings.Contains(string(seen.State), `"x"`) {
				t.Fatalf("got %d %s, want status 200, seen.State with \"x\"", status, seen.State)
			}
		}
		var copied gateway.SessionInfo
		if status := away.post("/v1/tools/fork_session", args{"session_name": "s", "new_name": "copy"}, &copied); status != 200 || copied.Node != made.Node {
			t.Fatalf("got %d %+v, want status 200, copied.Node %v", status, copied, made.Node)
		}
		value(t, others[1].keep("copy", "x"), "43")
		if status := away.post("/v1/tools/reset_session", args{"session_name": "copy"}, &copied); status != 200 {
			t.Fatalf("got %d, want status 200", status)
		}
		code(t, others[1].keep("copy", "x"), surfaces.CodeException)
		var closed gateway.Closed
		if away.post("/v1/tools/close_session", args{"session_name": "copy"}, &closed); !closed.Closed {
			t.Fatalf("got %+v, want closed.Closed", closed)
		}
		code(t, own.read("copy", "1"), surfaces.CodeSessionNotFound)
	})
	t.Run("steering", func(t *testing.T) {
		id := away.running(t, "s", "import time\nwhile True: time.sleep(0.01)")
		third := others[1]
		eventually(t, "the third node finds the call", func() bool { return third.result(id).Status == surfaces.StatusRunning })
		if got := third.steer(t, id, "ask", args{"code": "x"}); got["result"] == nil {
			t.Fatalf("got %v, want a result", got)
		}
		third.steer(t, id, "stop", nil)
		for _, w := range all {
			code(t, w.ended(t, id), surfaces.CodeStopped)
		}
		value(t, own.keep("s", "x"), "43")
	})
	t.Run("streaming", func(t *testing.T) {
		var kinds []string
		last := ""
		for ev := range away.stream(t.Context(), args{"code": "print('a')\nawait notify('half')\nprint('b')", "state_mode": "stateful", "session_name": "s"}) {
			if ev.name != last {
				kinds = append(kinds, ev.name)
			}
			last = ev.name
		}
		// Output after the notice may be delivered before it.
		if got := strings.Join(kinds, " "); got != "started stdout notify stdout result" && got != "started stdout notify result" {
			t.Fatalf("got %s, want started, stdout, notify, perhaps stdout, result", got)
		}
	})
	t.Run("a key runs its call once", func(t *testing.T) {
		call := args{"code": "x += 1; x", "state_mode": "stateful", "session_name": "s", "idempotency_key": "k"}
		first := ok(t, away.exec(call))
		for _, w := range all {
			if again := w.exec(call); again.CallID != first.CallID || string(again.Result) != string(first.Result) {
				t.Fatalf("got %+v, want CallID %v, Result %v", again, first.CallID, string(first.Result))
			}
		}
		if res := own.exec(call.with(args{"code": "x"})); *res.Code != surfaces.CodeInvalidArgument {
			t.Fatalf("got %s, want Code %v", show(res), surfaces.CodeInvalidArgument)
		}
	})
}

// A deadline, a death and an exception are reported in the same way from another node as from
// this one.
func TestOutcomesFromAnotherNode(t *testing.T) {
	all := mesh(t, 3)
	_, others := owner(t, all, ok(t, all[0].keep("s", "x = 1")))
	away := others[0]
	code(t, away.keep("s", "1/0"), surfaces.CodeException)
	code(t, away.exec(args{"code": "while True: pass", "state_mode": "stateful", "session_name": "s", "timeout_s": 1}), surfaces.CodeTimeout)
	value(t, away.keep("s", "x"), "1")
	res := away.keep("s", "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)")
	if *res.Code != surfaces.CodeSegfault || res.Attempts != 2 || res.StateLost.Loss == nil {
		t.Fatalf("got %s, want Code %v, Attempts 2, a loss", show(res), surfaces.CodeSegfault)
	}
	res = others[1].keep("s", "1")
	if res.StateLost.Loss == nil {
		t.Fatalf("the next call was not told: %s", show(res))
	}
	if res := away.keep("s", "1"); res.StateLost.Loss != nil || res.Attempts != 1 {
		t.Fatalf("told again: %s", show(res))
	}
}

// The shutdown of a node is noticed, and its sessions are rebuilt elsewhere.
func TestANodeThatGoesAway(t *testing.T) {
	all := mesh(t, 3)
	own, others := owner(t, all, ok(t, all[0].keep("s", "x = 1")))
	away := others[0]
	id := own.id()
	own.stop()
	res := ok(t, away.exec(args{"code": "'x' in globals()", "state_mode": "stateful", "session_name": "s", "timeout_s": 60}))
	if string(res.Result) != "false" || res.StateLost.Loss == nil || res.StateLost.Reason != "node_stopped" || res.Node == id || res.Attempts != 1 {
		t.Fatalf("got %s, want Result \"false\", loss reason \"node_stopped\", Node other than %v, Attempts 1", show(res), id)
	}
	value(t, others[1].read("s", "1"), "1")
}

func TestAMeshOfOneRejectsStrangers(t *testing.T) {
	a := start(t, t.TempDir(), quick)
	var token gateway.TokenInfo
	a.post("/v1/tokens", args{"role": "node"}, &token)
	join := func(tok string) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		return node.Run(ctx, node.Config{
			DataDir: t.TempDir(), HTTPAddr: "127.0.0.1:0", ListenAddr: "127.0.0.1:0", Join: a.status().Listen, Token: tok,
			Ready: func(string, string, string) { cancel() },
		})
	}
	if err := join(token.Token); err != nil {
		t.Fatalf("a token does not let in: %v", err)
	}
	for name, tok := range map[string]string{"used": token.Token, "mistyped": token.Token[:len(token.Token)-1] + "x", "none": ""} {
		if err := join(tok); err == nil {
			t.Errorf("a token that is %s lets in", name)
		}
	}
}

// A call that an owner ends because it is shut down is lost with it: a caller at another node
// is not told that the call was stopped, even if the interrupt alone ended it.
func TestAShutDownOwnerLosesItsCalls(t *testing.T) {
	all := mesh(t, 3)
	own, others := owner(t, all, ok(t, all[0].keep("s", "x = 1")))
	c := others[0].calls(t, args{"code": `
import signal, time
if 'x' in globals():
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    print('waits')
    time.sleep(600)
'again'`, "state_mode": "stateful", "session_name": "s", "timeout_s": 120}, nil)
	c.next("stdout")
	own.stop()
	res := c.result()
	value(t, res, `"again"`)
	if res.Attempts != 2 || res.StateLost.Loss == nil {
		t.Errorf("got %+v, want Attempts 2, a loss", res)
	}
}
