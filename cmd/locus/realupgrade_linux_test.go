package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

// nextRelease is what a release that comes after this one may change, as edits of the
// sources: it prefers a newer protocol between nodes and still speaks ours, it knows one
// more feature level, and what it says of calls and of its load has more fields.
var nextRelease = map[string][][2]string{
	"mesh/accept.go":    {{"}, protocolNode)", `}, "locus-node/2", protocolNode)`}},
	"mesh/link.go":      {{"}, protocolNode)", `}, "locus-node/2", protocolNode)`}},
	"registry/level.go": {{"const level uint8 = 2", "const level uint8 = 3"}},
	"registry/lease_grant.go": {
		{"\tRunning  int `json:\"running\"`", "\tRunning  int `json:\"running\"`\n\tMore int `json:\"more\"`"},
	},
	"node/peer/wire.go": {
		{"\tFrom calls.Mark `json:\"from\"`", "\tFrom calls.Mark `json:\"from\"`\n\tMore []string `json:\"more\"`"},
		{"CallID: a.CallID, Number", "More: []string{\"of\", \"the next release\"}, CallID: a.CallID, Number"},
		{"\tLoss   *lost           `json:\"loss,omitempty\"`", "\tLoss   *lost           `json:\"loss,omitempty\"`\n\tMore map[string]int `json:\"more\"`"},
		{"e := end{Result", "e := end{More: map[string]int{\"a\": 1}, Result"},
	},
}

// nextBinary builds the next release.
func nextBinary(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	replace := map[string]string{}
	for file, edits := range nextRelease {
		file = filepath.Join("..", "..", file)
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		next := string(b)
		for _, e := range edits {
			if n := strings.Count(next, e[0]); n != 1 {
				t.Fatalf("%q is %d times in %s", e[0], n, file)
			}
			next = strings.Replace(next, e[0], e[1], 1)
		}
		whole, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		replace[whole] = filepath.Join(dir, fmt.Sprint(len(replace), ".go"))
		if err := os.WriteFile(replace[whole], []byte(next), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	list, path := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "locus")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-overlay", list, "-ldflags", "-X main.release=next", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// upgraded is a mesh whose nodes are upgraded one by one, with the expected contents of its
// sessions.
type upgraded struct {
	t     *testing.T
	nodes []*realNode
	owner map[string]string // by session: the node's id
	count map[string]int    // by session: its counter
}

// add increments a session's counter through a node.
func (u *upgraded) add(through *realNode, session string) (surfaces.Result, int) {
	return through.result("-m", "stateful", "-s", session, "-t", "60", "x = globals().get('x', 0) + 1; x")
}

// awaitVoters waits until all nodes vote.
func (u *upgraded) awaitVoters() {
	u.t.Helper()
	eventually(u.t, "three voters are up", func() bool {
		voters := 0
		for _, info := range u.nodes[0].nodes() {
			if info.Voter && info.State == "up" {
				voters++
			}
		}
		return voters == len(u.nodes)
	})
}

// createSessions creates a session on each node that has none, while the other nodes accept no
// new ones.
func (u *upgraded) createSessions() {
	u.t.Helper()
	for i, n := range u.nodes {
		if slices.Contains(slices.Collect(maps.Values(u.owner)), n.id) {
			continue
		}
		others := func(do string) {
			for _, o := range u.nodes {
				if o != n {
					decoded[gateway.NodeInfo](n, "nodes", do, o.id)
				}
			}
		}
		others("drain")
		name := fmt.Sprint("s", i, "-", len(u.count))
		res, status := u.add(n, name)
		others("undrain")
		if status != 0 || !res.SessionCreated || res.Node != n.id {
			u.t.Fatalf("on %s: status %d, want 0: %s", n.id, status, say(res))
		}
		u.owner[name], u.count[name] = n.id, 1
	}
}

// checkSessions increments every session through every node: each has the value that was
// answered last, and no loss is reported.
func (u *upgraded) checkSessions() {
	u.t.Helper()
	for _, n := range u.nodes {
		for name := range u.owner {
			u.count[name]++
			res, status := u.add(n, name)
			if status != 0 || string(res.Result) != strconv.Itoa(u.count[name]) || res.StateLost.Loss != nil || res.Attempts != 1 || res.Node != u.owner[name] {
				u.t.Errorf("%s through %s, want %d from %s: status %d, %s", name, n.id, u.count[name], u.owner[name], status, say(res))
			}
		}
		if res, status := n.result("-l", "bash", "echo $((6*7))"); status != 0 || res.Stdout != "42\n" {
			u.t.Errorf("through %s: status %d, want 0, %s", n.id, status, say(res))
		}
	}
}

// restart restarts a node with a release, while a client uses a session of another node. The
// node's own sessions are lost, and the next caller of each is told.
func (u *upgraded) restart(n *realNode, path string) {
	u.t.Helper()
	var kept string
	var other *realNode
	for name, at := range u.owner {
		if at != n.id {
			kept = name
		}
	}
	for _, o := range u.nodes {
		if o != n && (other == nil || o.id != u.owner[kept]) {
			other = o // one that does not own the session, if there is one
		}
	}
	stop, work := make(chan struct{}), sync.WaitGroup{}
	work.Go(func() {
		for {
			u.count[kept]++
			res, status := u.add(other, kept)
			if status != 0 || string(res.Result) != strconv.Itoa(u.count[kept]) || res.StateLost.Loss != nil || res.Attempts != 1 {
				u.t.Errorf("%s through %s while %s restarts, want %d: status %d, %s", kept, other.id, n.id, u.count[kept], status, say(res))
				return
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	if code := n.kill(syscall.SIGTERM); code != 0 {
		u.t.Errorf("SIGTERM ended %s with status %d", n.id, code)
	}
	id := n.id
	n.path = path
	n.up("--fast", "--listen", n.listen)
	close(stop)
	work.Wait()
	if n.id != id {
		u.t.Fatalf("the node rejoined as %s, want %s", n.id, id)
	}
	u.awaitVoters()
	for name, at := range u.owner {
		if at != id {
			continue
		}
		res, status := u.add(n, name)
		told := res.StateLost.Loss != nil && (res.StateLost.Reason == "node_stopped" || res.StateLost.Reason == "node_restarted")
		if status != 0 || !told || string(res.Result) != "1" {
			u.t.Errorf("%s after its node was restarted: status %d, want 0, %s", name, status, say(res))
		}
		u.owner[name], u.count[name] = res.Node, 1
	}
	u.checkSessions()
}

// A mesh gets the next release node by node. Calls go both ways between releases, what
// is on a node that is not restarted is there, what is lost is told, there is a way back
// while one node has the old release, and none afterwards.
func TestARollingUpgrade(t *testing.T) {
	t.Parallel()
	old, next := binary(t), nextBinary(t)
	a, b, c, _ := realMesh(t, "--fast")
	u := &upgraded{t: t, nodes: []*realNode{a, b, c}, owner: map[string]string{}, count: map[string]int{}}
	// The node that leads comes last.
	var order []*realNode
	var leader *realNode
	for _, n := range u.nodes {
		if a.nodes()[n.id].Leader {
			leader = n
		} else {
			order = append(order, n)
		}
	}
	if leader == nil {
		t.Fatal("nobody leads")
	}
	u.createSessions()
	u.checkSessions()
	u.restart(order[0], next)
	u.restart(order[0], old) // going back is still possible
	u.restart(order[0], next)
	u.restart(order[1], next)
	if version := a.nodes()[order[1].id].Version; version != "next" {
		t.Errorf("its version is %q", version)
	}
	u.createSessions()
	u.restart(leader, next)

	// All nodes have the next release: the mesh uses its level, and the old release refuses to
	// start.
	if code := b.kill(syscall.SIGTERM); code != 0 {
		t.Errorf("SIGTERM ended %s with status %d", b.id, code)
	}
	b.path = old
	_, errs, status := b.locus("up", "--fast", "--http", "127.0.0.1:0", "--listen", b.listen)
	if status != surfaces.ExitRefused || !strings.Contains(errs, "start the release of locus that the other nodes run") {
		t.Fatalf("status %d, %s, want status %v, stderr with \"start the release of locus that the other nodes run\"", status, errs, surfaces.ExitRefused)
	}
	b.path = next
	b.up("--fast", "--listen", b.listen)
	u.awaitVoters()
	for name, at := range u.owner {
		if at == b.id {
			delete(u.owner, name)
		}
	}
	u.createSessions()
	u.checkSessions()
	late, join := a.another()
	late.path = old
	_, errs, status = late.locus(append([]string{"up", "--fast", "--http", "127.0.0.1:0"}, join...)...)
	if status != surfaces.ExitRefused || !strings.Contains(errs, "start the release of locus that the other nodes run") {
		t.Fatalf("one of the old release that joins: status %d, %s", status, errs)
	}
}
