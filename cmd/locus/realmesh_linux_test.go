package main

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

// say formats an answer for the test's log.
func say(answer any) string {
	text, err := json.Marshal(answer)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// decoded runs a command with --json and decodes its answer.
func decoded[T any](n *realNode, args ...string) T {
	n.t.Helper()
	out, errs, status := n.locus(append([]string{"--json"}, args...)...)
	var answer T
	if err := json.Unmarshal([]byte(out), &answer); err != nil || status != 0 {
		n.t.Fatalf("%q: status %d, %v in %q %q", args, status, err, out, errs)
	}
	return answer
}

func (n *realNode) nodes() map[string]gateway.NodeInfo {
	n.t.Helper()
	byID := map[string]gateway.NodeInfo{}
	for _, info := range decoded[gateway.NodeList](n, "nodes").Nodes {
		byID[info.ID] = info
	}
	return byID
}

// another returns a node that is not up yet, and the flags with which it joins the mesh of n.
func (n *realNode) another() (*realNode, []string) {
	n.t.Helper()
	made := decoded[gateway.TokenInfo](n, "token", "create", "--role", "node")
	return &realNode{t: n.t, path: n.path, data: n.t.TempDir()}, []string{"--join", n.listen, "--token", made.Token}
}

// realMesh is three nodes, all of which vote. The flags are for each of them.
func realMesh(t *testing.T, flags ...string) (a, b, c *realNode, usedToken []string) {
	t.Helper()
	a = &realNode{t: t, path: binary(t), data: t.TempDir()}
	a.up(flags...)
	b, join := a.another()
	b.up(append(join, flags...)...)
	c, usedToken = b.another()
	c.up(append(append(usedToken, "--labels", "zone=c"), flags...)...)
	eventually(t, "three voters are up", func() bool {
		voters := 0
		for _, info := range a.nodes() {
			if info.Voter && info.State == "up" {
				voters++
			}
		}
		return voters == 3
	})
	return a, b, c, usedToken
}

func TestThreeProcessesAreOneMesh(t *testing.T) {
	t.Parallel()
	a, b, c, usedToken := realMesh(t)

	// A token admits one node. The next one is told so.
	late := &realNode{t: t, path: a.path, data: t.TempDir()}
	_, errs, status := late.locus(append([]string{"up", "--http", "127.0.0.1:0"}, usedToken...)...)
	if status != surfaces.ExitRefused || !strings.Contains(errs, "does not take this token: it is used up") {
		t.Fatalf("a used token: status %d, %q", status, errs)
	}

	all := a.nodes()
	leaders := 0
	for _, info := range all {
		if info.Leader {
			leaders++
		}
	}
	if len(all) != 3 || leaders != 1 || all[c.id].Labels["zone"] != "c" || all[b.id].Addr != b.listen {
		t.Fatalf("got %s, want three nodes, one leader, and the label and address of each", say(all))
	}

	// A drained node gets no new sessions, not even for calls that come in there.
	if info := decoded[gateway.NodeInfo](a, "nodes", "drain", b.id, "--wait"); !info.Draining || info.Sessions != 0 {
		t.Fatalf("got %s, want Draining, Sessions 0", say(info))
	}
	eventually(t, "the node knows that it is drained", func() bool { return b.nodes()[b.id].Draining })
	for _, name := range []string{"one", "two", "three"} {
		if res, status := b.result("-m", "stateful", "-s", name, "1"); status != 0 || res.Node == b.id {
			t.Fatalf("session %s: status %d, want 0, %s", name, status, say(res))
		}
	}
	if info := decoded[gateway.NodeInfo](a, "nodes", "undrain", b.id[:len("node-")+6]); info.Draining {
		t.Fatalf("got %s, want no Draining", say(info))
	}

	// A session is the same one through every node.
	made, status := c.result("-m", "stateful", "-s", "work", "x = 41")
	if status != 0 || !made.SessionCreated {
		t.Fatalf("status %d, want 0: %s", status, say(made))
	}
	for _, n := range []*realNode{a, b, c} {
		res, status := a.result("--server", n.http, "-m", "stateful", "-s", "work", "x += 1; x")
		if status != 0 || res.Node != made.Node || res.SessionCreated || res.Attempts != 1 {
			t.Fatalf("through %s: status %d, want 0: %s", n.id, status, say(res))
		}
	}
	if res, _ := b.result("-m", "read_only", "-s", "work", "x"); string(res.Result) != "44" {
		t.Fatalf("got %s, want Result \"44\"", say(res))
	}

	for _, n := range []*realNode{c, b, a} {
		if code := n.kill(syscall.SIGTERM); code != 0 {
			t.Errorf("SIGTERM ended %s with status %d", n.id, code)
		}
	}
}

func TestTheOwnerOfASessionIsKilled(t *testing.T) {
	a, b, c, _ := realMesh(t, "--fast")
	made, status := b.result("-m", "stateful", "-s", "work", "x = 41")
	if status != 0 {
		t.Fatalf("status %d, want 0: %s", status, say(made))
	}
	var owner *realNode
	var others []*realNode
	for _, n := range []*realNode{a, b, c} {
		if n.id == made.Node {
			owner = n
			continue
		}
		others = append(others, n)
	}
	owner.kill(syscall.SIGKILL)

	// The next caller gets the session on another node, and is told of the loss.
	res, status := others[0].result("-m", "stateful", "-s", "work", "'x' in globals()")
	if status != 0 || string(res.Result) != "false" || res.Node == owner.id || res.StateLost.Loss == nil || res.StateLost.Reason != "node_expired" {
		t.Fatalf("status %d, want 0: %s", status, say(res))
	}
	again, status := others[1].result("-m", "stateful", "-s", "work", "x = 7")
	if status != 0 || again.Node != res.Node || again.StateLost.Loss != nil || again.Attempts != 1 {
		t.Fatalf("told twice: status %d, want 0: %s", status, say(again))
	}
	if state := others[0].nodes()[owner.id].State; state != "expired" {
		t.Fatalf("the killed node is %q", state)
	}

	// It rejoins with its identity, without a token, and does not get its sessions back.
	before := owner.id
	owner.up("--fast")
	if owner.id != before {
		t.Fatalf("the node rejoined as %s, want %s", owner.id, before)
	}
	back, status := owner.result("-m", "stateful", "-s", "work", "x")
	if status != 0 || string(back.Result) != "7" || back.Node != res.Node {
		t.Fatalf("status %d, want 0: %s", status, say(back))
	}
	eventually(t, "the killed node is up", func() bool { return others[0].nodes()[owner.id].State == "up" })

	// A node can be removed once it has been shut down, and not before.
	if _, errs, status := others[0].locus("nodes", "remove", owner.id, "--yes"); status != surfaces.ExitRefused || !strings.Contains(errs, "may still serve") {
		t.Fatalf("status %d: %s, want status %v, stderr with \"may still serve\"", status, errs, surfaces.ExitRefused)
	}
	if code := owner.kill(syscall.SIGTERM); code != 0 {
		t.Fatalf("SIGTERM ended it with status %d", code)
	}
	eventually(t, "the node that was shut down is expired", func() bool { return others[0].nodes()[owner.id].State == "expired" })
	if out, errs, status := others[0].locus("nodes", "remove", owner.id, "--yes"); status != 0 {
		t.Fatalf("status %d, want 0: %s%s", status, out, errs)
	}
	eventually(t, "two nodes are left", func() bool { return len(others[1].nodes()) == 2 })
}

// A mistake in joining is reported at once, and leaves nothing behind.
func TestJoiningMisused(t *testing.T) {
	t.Parallel()
	a := &realNode{t: t, path: binary(t), data: t.TempDir()}
	a.up()
	token := decoded[gateway.TokenInfo](a, "token", "create", "--role", "node").Token
	bearer := decoded[gateway.ActorInfo](a, "token", "create", "--role", "admin", "--name", "ops").Token
	withdrawn := decoded[gateway.TokenInfo](a, "token", "create", "--role", "node")
	decoded[gateway.TokenInfo](a, "token", "revoke", withdrawn.ID)
	foreign := &realNode{t: t, path: a.path, data: t.TempDir()}
	foreign.up()
	elsewhere := decoded[gateway.TokenInfo](foreign, "token", "create", "--role", "node").Token
	for name, row := range map[string]struct{ token, want string }{
		"mistyped":        {strings.Replace(token, ".", "..", 1), "mistyped join token"},
		"cut short":       {token[:len(token)-5], "cut short"},
		"an actor's":      {bearer, "not a join token"},
		"revoked":         {withdrawn.Token, "does not take this token"},
		"of another mesh": {elsewhere, "is not of the mesh that the token is for"},
	} {
		n := &realNode{t: t, path: a.path, data: t.TempDir()}
		_, errs, status := n.locus("up", "--http", "127.0.0.1:0", "--join", a.listen, "--token", row.token, "--log-level", "error")
		if status != surfaces.ExitRefused || !strings.Contains(errs, row.want) || !strings.Contains(errs, "locus token create --role node") {
			t.Errorf("%s: status %d, want %d and a message with %q: %s", name, status, surfaces.ExitRefused, row.want, errs)
		}
	}
	if all := a.nodes(); len(all) != 1 {
		t.Errorf("got %s, want 1 entry", say(all))
	}
	// The token is still valid. A member does not use another one.
	n := &realNode{t: t, path: a.path, data: t.TempDir()}
	n.up("--join", a.listen, "--token", token)
	n.kill(syscall.SIGTERM)
	n.up("--join", a.listen, "--token", token)
	if all := n.nodes(); len(all) != 2 {
		t.Errorf("got %s, want 2 entries", say(all))
	}
}

// The error for an address that is in use says what to do.
func TestTheAddressIsTaken(t *testing.T) {
	t.Parallel()
	a := &realNode{t: t, path: binary(t), data: t.TempDir()}
	a.up()
	n := &realNode{t: t, path: a.path, data: t.TempDir()}
	for _, flag := range [][]string{{"--http", a.http}, {"--http", "127.0.0.1:0", "--listen", a.listen}} {
		if _, errs, status := n.locus(append([]string{"up"}, flag...)...); status != surfaces.ExitRefused || !strings.Contains(errs, "another program uses the address") {
			t.Errorf("%v: status %d: %s, want status %v, stderr with \"another program uses the address\"", flag, status, errs, surfaces.ExitRefused)
		}
	}
}

// Most voters are gone for good: the mesh reports it, and continues from the remaining node
// when it is told to.
func TestAMeshIsRecoveredFromOneNode(t *testing.T) {
	a, b, c, _ := realMesh(t, "--fast")
	if res, status := a.result("-m", "stateful", "-s", "work", "x = 41"); status != 0 {
		t.Fatalf("status %d, want 0: %s", status, say(res))
	}
	actor := decoded[gateway.ActorInfo](a, "token", "create", "--name", "planner").Token
	if _, errs, status := b.locus("recover", "--yes"); status != surfaces.ExitRefused || !strings.Contains(errs, "shut it down first") {
		t.Fatalf("while it runs: status %d, %s", status, errs)
	}
	eventually(t, "the actor is known to the node that will be left", func() bool {
		_, _, status := b.locus("--token", actor, "exec", "1")
		return status == 0
	})
	a.kill(syscall.SIGKILL)
	c.kill(syscall.SIGKILL)
	eventually(t, "the node that is left knows of no leader", func() bool { return decoded[gateway.StatusInfo](b, "status").Leader == "" })
	if res, status := b.result("-t", "5", "-m", "stateful", "-s", "other", "1"); status != surfaces.ExitUnavailable && status != surfaces.ExitTimeout {
		t.Fatalf("without most of the voters: status %d, %s", status, say(res))
	}
	b.kill(syscall.SIGKILL)
	if _, errs, status := b.locus("recover"); status != surfaces.ExitRefused || !strings.Contains(errs, "give --yes") {
		t.Fatalf("unasked: status %d, %s", status, errs)
	}
	if out, errs, status := b.locus("recover", "--yes"); status != 0 || !strings.Contains(out, "locus up --data "+b.data) {
		t.Fatalf("status %d, want 0, %s%s", status, out, errs)
	}
	b.up("--fast")
	res, status := b.result("--token", actor, "-m", "stateful", "-s", "fresh", "1")
	if status != 0 || res.Node != b.id {
		t.Fatalf("a new session: status %d, want 0, %s", status, say(res))
	}
	res, status = b.result("-m", "stateful", "-s", "work", "'x' in globals()")
	if status != 0 || string(res.Result) != "false" || res.StateLost.Loss == nil || res.StateLost.Reason != "mesh_recovered" {
		t.Fatalf("status %d, want 0, %s", status, say(res))
	}
}
