package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/locusrun/locus/mesh/netlab"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

// labNode is a node on a virtual host of its own. Its clients run on that host too.
func labNode(t *testing.T, host *netlab.Host, flags ...string) *realNode {
	t.Helper()
	n := &realNode{t: t, path: host.Program(binary(t)), data: t.TempDir()}
	n.up(append([]string{"--listen", host.Addr() + ":7071"}, flags...)...)
	return n
}

// labMesh is three nodes, all of which vote.
func labMesh(t *testing.T, lab *netlab.Lab) []*realNode {
	t.Helper()
	all := []*realNode{labNode(t, lab.Host(), "--fast")}
	for len(all) < 3 {
		_, join := all[0].another()
		all = append(all, labNode(t, lab.Host(), append(join, "--fast")...))
	}
	eventually(t, "three voters are up", func() bool {
		voters := 0
		for _, info := range all[0].nodes() {
			if info.Voter && info.State == "up" {
				voters++
			}
		}
		return voters == 3
	})
	return all
}

// labLink links a host with the mesh of a node.
func labLink(t *testing.T, n *realNode, host *netlab.Host) *realLink {
	t.Helper()
	l := &realLink{t: t, n: n, path: host.Program(binary(t)), data: t.TempDir()}
	token, errs, status := n.locus("token", "create", "--role", "link")
	if status != 0 {
		t.Fatalf("got %d %q, want status 0", status, errs)
	}
	l.up("--join", n.listen, "--token", strings.TrimSpace(token))
	l.awaits("the machine is connected", func() bool { return l.is(gateway.MachineConnected) })
	return l
}

// owner runs the command on the machine itself.
func (l *realLink) owner(args ...string) (stdout, stderr string, status int) {
	l.t.Helper()
	return (&realNode{t: l.t, path: l.path, data: l.data}).locus(args...)
}

// held is a program for a machine that leaves a mark there each time that it runs, says
// "before", and goes on to its end when it is let go.
type held struct {
	t    *testing.T
	dir  string
	code string
}

func newHeld(t *testing.T) *held {
	t.Helper()
	h := &held{t: t, dir: t.TempDir()}
	h.code = fmt.Sprintf(`import os, time
with open(%q, "a") as f:
    f.write("ran\n")
print("before", flush=True)
while not os.path.exists(%q):
    time.sleep(0.01)
print("after", flush=True)
"the end"`, h.ran(), h.gate())
	return h
}

func (h *held) ran() string  { return filepath.Join(h.dir, "ran") }
func (h *held) gate() string { return filepath.Join(h.dir, "go") }

// times is how often the program has run.
func (h *held) times() int {
	marks, _ := os.ReadFile(h.ran()) // none at first
	return strings.Count(string(marks), "ran\n")
}

func (h *held) letGo() {
	h.t.Helper()
	if err := os.WriteFile(h.gate(), nil, 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// asked asks a node to run the program. What it comes to is on the channel.
func (h *held) asked(n *realNode, timeout int) <-chan surfaces.Result {
	ended := make(chan surfaces.Result, 1)
	go func() {
		res, _ := n.result("--surface", "user_machine", "-t", fmt.Sprint(timeout), h.code)
		ended <- res
	}()
	return ended
}

// begins asks a node to run the program, and waits until it runs.
func (h *held) begins(n *realNode, timeout int) <-chan surfaces.Result {
	h.t.Helper()
	ended := h.asked(n, timeout)
	eventually(h.t, "the program runs", func() bool { return h.times() == 1 })
	return ended
}

// endedWell checks that the program ran to its end, and that this was heard once.
func (h *held) endedWell(res surfaces.Result) {
	h.t.Helper()
	if res.Code != nil || string(res.Result) != `"the end"` || res.Stdout != "before\nafter\n" || res.Attempts != 1 || h.times() != 1 {
		h.t.Fatalf("it ran %d times: %s", h.times(), say(res))
	}
}

// endedTruly checks the end of a program that was asked for when its machine may not have
// been there: what its caller was told is so.
func (h *held) endedTruly(res surfaces.Result) {
	h.t.Helper()
	n := h.times()
	switch {
	case res.Code == nil:
		h.endedWell(res)
	case *res.Code == surfaces.CodeMachineUnreachable && n == 0, *res.Code == surfaces.CodeOutcomeUnknown && n <= 1:
	default:
		h.t.Fatalf("it ran %d times: %s", n, say(res))
	}
}

// typed is a command as a person sees it who waits for it.
type typed struct {
	t   *testing.T
	cmd *exec.Cmd

	mu  sync.Mutex
	out bytes.Buffer
}

// types starts a command against the node.
func (n *realNode) types(args ...string) *typed {
	n.t.Helper()
	p := &typed{t: n.t, cmd: exec.Command(n.path, append([]string{"--data", n.data}, args...)...)}
	p.cmd.Stdout = p
	if err := p.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Signal(syscall.SIGKILL) // it may be gone already
			_ = p.cmd.Wait()                          // the test has failed before
		}
	})
	return p
}

func (p *typed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *typed) shown() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// ends waits for the command and gives all that it has shown.
func (p *typed) ends() string {
	p.t.Helper()
	if err := p.cmd.Wait(); err != nil {
		p.t.Fatalf("%v, after %q", err, p.shown())
	}
	return p.shown()
}
