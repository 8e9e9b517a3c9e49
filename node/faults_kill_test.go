package node_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

// An owner that was stopped and continues after its sessions were rebuilt elsewhere fences
// itself before it answers anything.
func TestAStoppedOwner(t *testing.T) {
	t.Parallel()
	all := processes(t, 3, "quick")
	made := ok(t, all[0].keep("s", "x = ['old']"))
	own := all[named(t, all, made.Node)]
	away := all[(named(t, all, made.Node)+1)%3]
	held := own.exec(args{"code": "1", "background": true})
	own.signal(syscall.SIGSTOP)
	var unknown surfaces.Result
	if status := away.get("/v1/executions/"+held.CallID, &unknown); status != 503 || unknown.Code == nil || *unknown.Code != surfaces.CodeOwnerUnreachable {
		t.Errorf("a call that a silent node holds: status %d, want 503, %s", status, show(unknown))
	}
	answers := make(chan string, 2)
	for _, mode := range []string{"stateful", "read_only"} {
		go func() {
			res := own.exec(args{"code": "x", "state_mode": mode, "session_name": "s", "timeout_s": 100})
			answer := string(res.Result)
			if res.Code != nil {
				answer = string(*res.Code)
			}
			answers <- mode + " " + answer
		}()
	}
	rebuilt := ok(t, away.exec(args{"code": "x = ['new']", "state_mode": "stateful", "session_name": "s", "timeout_s": 60}))
	if rebuilt.StateLost.Loss == nil || rebuilt.Node == made.Node {
		t.Fatalf("got %s, want a loss, Node other than %v", show(rebuilt), made.Node)
	}
	own.signal(syscall.SIGCONT)
	for range 2 {
		switch got := <-answers; got {
		case `stateful ["new"]`, `read_only ["new"]`, "read_only session_lost":
			// A read-only call may also report the loss of the old state.
		default:
			t.Errorf("the woken owner answered %s", got)
		}
	}
	eventually(t, "the call is found again", func() bool {
		var found surfaces.Result
		return away.get("/v1/executions/"+held.CallID, &found) == 200 && found.Status == surfaces.StatusDone
	})
	value(t, own.keep("s", "x"), `["new"]`)
	if s := record(t, away.world); s.Node != rebuilt.Node {
		t.Fatalf("the session is on %s, not %s", s.Node, rebuilt.Node)
	}
}

// Code that a stopped node left running in a session is frozen by the time another node owns
// the session.
func TestCodeOfAStoppedOwnerIsFrozen(t *testing.T) {
	t.Parallel()
	all := processes(t, 3, "quick")
	made := ok(t, all[0].keep("s", "import os, threading, time\ndef count():\n    while True:\n        open('count', 'a').write('.')\n        time.sleep(0.01)\nthreading.Thread(target=count, daemon=True).start()\nos.path.abspath('count')"))
	var path string
	if err := json.Unmarshal(made.Result, &path); err != nil {
		t.Fatal(err)
	}
	size := func() int64 {
		t.Helper()
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	eventually(t, "the session's thread counts", func() bool { return size() > 10 })
	own := all[named(t, all, made.Node)]
	away := all[(named(t, all, made.Node)+1)%3]
	var status gateway.StatusInfo
	own.get("/v1/status", &status)
	if status.Enforced["leash"] == "" {
		t.Skip("nothing holds a stopped node's code still here: ", status.Enforced["notes"])
	}
	own.signal(syscall.SIGSTOP)
	rebuilt := ok(t, away.exec(args{"code": "1", "state_mode": "stateful", "session_name": "s", "timeout_s": 60}))
	if rebuilt.Node == made.Node {
		t.Fatalf("got %s, want Node other than %v", show(rebuilt), made.Node)
	}
	before := size()
	for range 3 { // each call takes longer than the thread's pause
		ok(t, away.exec(args{"code": "import time; time.sleep(0.1)", "state_mode": "stateful", "session_name": "s", "timeout_s": 60}))
	}
	if after := size(); after != before {
		t.Errorf("the old session's thread has counted from %d to %d", before, after)
	}
	own.signal(syscall.SIGCONT)
	eventually(t, "the woken node serves", func() bool {
		res := own.exec(args{"code": "1", "timeout_s": 20})
		return res.Code == nil
	})
	if after := size(); after != before {
		t.Errorf("the woken node let the old session's thread count from %d to %d", before, after)
	}
}

// A reader whose session's node is killed is told that the session is lost.
func TestTheOwnerOfAReaderIsKilled(t *testing.T) {
	t.Parallel()
	all := processes(t, 3, "quick")
	made := ok(t, all[0].keep("s", "import os, time; x = 1; os.path.abspath('reads')"))
	own := all[named(t, all, made.Node)]
	away := all[(named(t, all, made.Node)+1)%3]
	events := away.stream(t.Context(), args{"language": "python", "code": "print('reads', flush=True); time.sleep(100)", "state_mode": "read_only", "session_name": "s", "timeout_s": 110})
	await(t, events, "stdout")
	own.end(syscall.SIGKILL)
	res := await(t, events, "result").data
	if res["code"] != string(surfaces.CodeSessionLost) || res["attempts"] != 1.0 || res["state_lost"] == false {
		t.Errorf("got %v, want code session_lost, one attempt and a loss", res)
	}
}

// A killed node rejoins the mesh, at its old address or at another. The sessions that it owned
// are lost, which is reported once.
func TestAKilledNodeRejoins(t *testing.T) {
	t.Parallel()
	all := processes(t, 3, "quick")
	for _, elsewhere := range []bool{false, true} {
		made := ok(t, all[0].exec(args{"code": "x = 1", "state_mode": "stateful", "session_name": fmt.Sprint("s", elsewhere), "timeout_s": 60}))
		own := named(t, all, made.Node)
		all[own].end(syscall.SIGKILL)
		all[own] = all[own].again(elsewhere)
		if all[own].name != made.Node {
			t.Fatalf("the node rejoined as %s, want %s", all[own].name, made.Node)
		}
		voting(t, worlds(all))
		told := 0
		for _, w := range all {
			res := ok(t, w.exec(args{"code": "'x' in globals()", "state_mode": "stateful", "session_name": fmt.Sprint("s", elsewhere), "timeout_s": 60}))
			if string(res.Result) != "false" {
				t.Errorf("got %s, want Result \"false\"", show(res))
			}
			if res.StateLost.Loss != nil {
				told++
			}
		}
		if told != 1 {
			t.Errorf("%d callers were told of the loss, want 1", told)
		}
	}
}

// The owner of a session and the leader of five nodes are killed at once.
func TestOwnerAndLeaderAreKilled(t *testing.T) {
	t.Parallel()
	all := processes(t, 5, "quick")
	leader := leading(t, all)
	own, asking := leader, ""
	for i := 0; own == leader; i++ {
		// Another actor's session may be placed on any node.
		actor := all[leader].newActor(t, fmt.Sprint("a", i))
		asking = actor.token
		own = named(t, all, ok(t, actor.keep("s", "x = 1")).Node)
	}
	all[leader].end(syscall.SIGKILL)
	all[own].end(syscall.SIGKILL)
	told := 0
	for j, w := range all {
		if j == own || j == leader {
			continue
		}
		w.token = asking
		res := ok(t, w.exec(args{"code": "'x' in globals()", "state_mode": "stateful", "session_name": "s", "timeout_s": 100}))
		if string(res.Result) != "false" {
			t.Fatalf("got %s, want Result \"false\"", show(res))
		}
		if res.StateLost.Loss != nil {
			told++
		}
	}
	if told != 1 {
		t.Errorf("%d callers were told of the loss, want 1", told)
	}
}

// A node whose disk is full reports that it cannot serve, and the others continue.
func TestAFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("it takes root to make a small file system")
	}
	t.Parallel()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64m"); err != nil {
		t.Skip("a file system cannot be mounted here: ", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	a := spawn(t, process{Dir: t.TempDir(), Profile: "quick"})
	all := []*processWorld{a}
	for _, d := range []string{t.TempDir(), dir} {
		all = append(all, spawn(t, process{Dir: d, Profile: "quick", Join: a.listen, Token: a.nodeToken()}))
	}
	voting(t, worlds(all))
	full := all[2]
	fill, err := os.Create(filepath.Join(dir, "fill"))
	if err != nil {
		t.Fatal(err)
	}
	defer fill.Close()
	block := make([]byte, 1<<20)
	for err == nil {
		_, err = fill.Write(block)
	}
	for size := len(block) / 2; size > 0; size /= 2 { // the last bytes as well
		_, _ = fill.Write(block[:size]) // the disk is full when this fails
	}
	// Whatever the mesh writes, the full node cannot.
	n := 0
	eventually(t, "the node says that it is not ready", func() bool {
		n++
		res := all[n%2].exec(args{"code": "x = 1", "state_mode": "stateful", "session_name": fmt.Sprint("s", n%15), "timeout_s": 30})
		if res.Code != nil && *res.Code != "outcome_unknown" && *res.Code != "owner_unreachable" {
			t.Fatalf("the others do not go on: %s", show(res))
		}
		resp, err := http.Get(full.url + "/readyz")
		if err != nil {
			return true // it has ended
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusServiceUnavailable
	})
	for i, w := range all[:2] {
		ok(t, w.exec(args{"code": "x = 2", "state_mode": "stateful", "session_name": fmt.Sprint("after", i), "timeout_s": 60}))
	}
}

func (w *world) nodeToken() string {
	w.t.Helper()
	var token struct {
		Token string `json:"token"`
	}
	if status := w.post("/v1/tokens", args{"role": "node"}, &token); status != http.StatusOK {
		w.t.Fatalf("no token: status %d, want 200", status)
	}
	return token.Token
}
