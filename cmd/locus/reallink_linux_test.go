package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

// realLink is "locus link" in a process of its own.
type realLink struct {
	t    *testing.T
	n    *realNode
	path string
	data string
	cmd  *exec.Cmd

	mu    sync.Mutex
	lines []string
}

func (l *realLink) up(flags ...string) {
	l.t.Helper()
	l.cmd = exec.Command(l.path, append([]string{"--data", l.data, "link", "--consent", "allow", "--name", "laptop"}, flags...)...)
	out, err := l.cmd.StdoutPipe()
	errs, err2 := l.cmd.StderrPipe()
	if err := errors.Join(err, err2); err != nil {
		l.t.Fatal(err)
	}
	if err := l.cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { l.kill(syscall.SIGKILL) })
	for _, said := range []io.Reader{out, errs} {
		go func() {
			for lines := bufio.NewScanner(said); lines.Scan(); {
				l.mu.Lock()
				l.lines = append(l.lines, lines.Text())
				l.mu.Unlock()
			}
		}()
	}
}

func (l *realLink) kill(sig syscall.Signal) int {
	if l.cmd == nil {
		return 0
	}
	_ = l.cmd.Process.Signal(sig) // it may be gone already
	_ = l.cmd.Wait()              // the test looks at its status
	code := l.cmd.ProcessState.ExitCode()
	l.cmd = nil
	return code
}

func (l *realLink) said(what string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, what) {
			return true
		}
	}
	return false
}

func (l *realLink) awaits(what string, cond func() bool) {
	l.t.Helper()
	eventually(l.t, what, cond)
}

// awaitsAway waits until the node lists the machine as away. The list is a moment behind the
// connections, so without this a machine that is started again can be listed as connected
// before it is.
func (l *realLink) awaitsAway() {
	l.t.Helper()
	l.awaits("the machine is away", func() bool { return l.is(gateway.MachineAway) })
}

func (l *realLink) is(state string) bool {
	out, _, _ := l.n.locus("--json", "machines")
	var list gateway.MachineList
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return false
	}
	return len(list.Machines) == 1 && list.Machines[0].State == state
}

func linkedProcess(t *testing.T) *realLink {
	t.Helper()
	n := &realNode{t: t, path: binary(t), data: t.TempDir()}
	n.up()
	token, errs, status := n.locus("token", "create", "--role", "link")
	if status != 0 || !strings.Contains(errs, "locus link --join "+n.listen) {
		t.Fatalf("got %d %q, want 0 and the command that links a machine", status, errs)
	}
	l := &realLink{t: t, n: n, path: n.path, data: t.TempDir()}
	l.up("--join", n.listen, "--token", strings.TrimSpace(token))
	l.awaits("the machine is connected", func() bool { return l.is(gateway.MachineConnected) })
	return l
}

func TestARealMachineSleepsAndDies(t *testing.T) {
	l := linkedProcess(t)
	if res, status := l.n.result("--surface", "user_machine", "6 * 7"); status != 0 || string(res.Result) != "42" || *res.Machine != "laptop" {
		t.Fatalf("got %d %+v, want status 0, Result \"42\", Machine \"laptop\"", status, res)
	}
	// The machine is suspended during a call, and wakes in time.
	slept := make(chan surfaces.Result, 1)
	go func() {
		res, _ := l.n.result("--surface", "user_machine", "-t", "100", "print('runs', flush=True)\nimport time; time.sleep(1); 'slept'")
		slept <- res
	}()
	l.awaits("the program runs", func() bool { return l.said("runs python: print('runs'") })
	if err := l.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	l.awaits("the mesh knows that the machine is away", func() bool { return l.is(gateway.MachineAway) })
	if res, status := l.n.result("--surface", "user_machine", "1"); status != surfaces.ExitUnavailable || *res.Code != surfaces.CodeMachineUnreachable {
		t.Fatalf("got %d %+v, want status %v, Code %v", status, res, surfaces.ExitUnavailable, surfaces.CodeMachineUnreachable)
	}
	if err := l.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if res := <-slept; string(res.Result) != `"slept"` || res.Stdout != "runs\n" || res.Attempts != 1 {
		t.Fatalf("got %+v, want Result \"slept\", Stdout \"runs\\n\", Attempts 1", res)
	}
	// The agent is killed during another call.
	l.awaits("the machine is back", func() bool { return l.is(gateway.MachineConnected) })
	killed := make(chan surfaces.Result, 1)
	go func() {
		res, _ := l.n.result("--surface", "user_machine", "-t", "110", "import time; time.sleep(1000)  # is not run twice")
		killed <- res
	}()
	l.awaits("the program runs", func() bool { return l.said("runs python: import time; time.sleep(1000)") })
	l.kill(syscall.SIGKILL)
	l.up()
	if res := <-killed; res.Code == nil || *res.Code != surfaces.CodeOutcomeUnknown {
		t.Fatalf("got %+v, want Code %v", res, surfaces.CodeOutcomeUnknown)
	}
	log, _, _ := (&realNode{t: t, path: l.n.path, data: l.data}).locus("link", "log")
	if strings.Count(log, "is not run twice") != 1 {
		t.Fatalf("the log has %s", log)
	}
	// The owner unlinks the machine.
	owner := &realNode{t: t, path: l.n.path, data: l.data}
	if out, errs, status := owner.locus("link", "pause"); status != 0 || out != "paused\n" {
		t.Fatalf("got %d %q %q, want status 0, out \"paused\\n\"", status, out, errs)
	}
	l.awaits("the machine is back", func() bool { return l.is(gateway.MachineConnected) })
	if res, _ := l.n.result("--surface", "user_machine", "1"); res.Code == nil || *res.Code != surfaces.CodeConsentDenied {
		t.Fatalf("got %+v, want Code %v", res, surfaces.CodeConsentDenied)
	}
	if _, errs, status := owner.locus("link", "leave"); status != 0 {
		t.Fatalf("got %d %q, want status 0", status, errs)
	}
	if status := l.kill(0); status != surfaces.ExitRefused {
		t.Fatalf("the agent ended with status %d", status)
	}
	if _, errs, status := owner.locus("link", "--consent", "allow"); status != surfaces.ExitRefused || !strings.Contains(errs, "is not linked yet") {
		t.Fatalf("got %d %q, want status %v, stderr with \"is not linked yet\"", status, errs, surfaces.ExitRefused)
	}
}

// A call that was sent to a suspended machine before the mesh noticed the suspension does not
// run if the machine wakes after the call's end.
func TestARealMachineRunsNothingLate(t *testing.T) {
	l := linkedProcess(t)
	if err := l.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	res, _ := l.n.result("--surface", "user_machine", "-t", "1", "1  # comes too late")
	if res.Code == nil || *res.Code != surfaces.CodeOutcomeUnknown && *res.Code != surfaces.CodeMachineUnreachable {
		t.Fatalf("got %+v, want code outcome_unknown or machine_unreachable", res)
	}
	if err := l.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	// A later offer is accepted.
	var after surfaces.Result
	l.awaits("the machine is back", func() bool {
		after, _ = l.n.result("--surface", "user_machine", "'after'")
		return after.Code == nil
	})
	log, _, _ := (&realNode{t: t, path: l.n.path, data: l.data}).locus("link", "log")
	if string(after.Result) != `"after"` || !strings.Contains(log, "'after'") || strings.Contains(log, "comes too late") {
		t.Fatalf("got %+v, and the log has %s, want the later call alone in both", after, log)
	}
}

// A program that ended while its agent was suspended did not miss a deadline that passed
// before the agent woke.
func TestARealMachineWakesAfterADeadline(t *testing.T) {
	t.Parallel()
	l := linkedProcess(t)
	h := newHeld(t)
	const deadline = 30 // seconds, in which both programs must have begun
	begun := filepath.Join(t.TempDir(), "begun")
	shell := make(chan surfaces.Result, 1)
	go func() {
		code := fmt.Sprintf("echo >%q; until [ -e %q ]; do sleep 0.1; done; echo after; exit 3", begun, h.gate())
		res, _ := l.n.result("--surface", "user_machine", "-l", "bash", "-t", fmt.Sprint(deadline), code)
		shell <- res
	}()
	python := h.begins(l.n, deadline)
	l.awaits("the shell runs", func() bool {
		_, err := os.Stat(begun)
		return err == nil
	})
	if err := l.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	h.letGo()
	var ids []string
	for _, ended := range []<-chan surfaces.Result{python, shell} {
		res := <-ended
		if res.Code == nil || *res.Code != surfaces.CodeOutcomeUnknown {
			t.Fatalf("got %s, want Code %v", say(res), surfaces.CodeOutcomeUnknown)
		}
		ids = append(ids, res.CallID)
	}
	if err := l.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	late := func(id string) (res surfaces.Result) {
		l.awaits("the late result is shown", func() bool {
			res = shown(l.n, id)
			return res.Code == nil || *res.Code != surfaces.CodeOutcomeUnknown
		})
		return res
	}
	h.endedWell(late(ids[0]))
	if res := late(ids[1]); res.Code != nil || res.Exit == nil || res.Exit.Code == nil || *res.Exit.Code != 3 || res.Stdout != "after\n" {
		t.Errorf("got %s, want no Code, Exit.Code 3, Stdout \"after\\n\"", say(res))
	}
}

// Flags that have no effect because the machine is linked already are reported, not ignored
// silently.
func TestALinkedMachineNamesUnusedFlags(t *testing.T) {
	l := linkedProcess(t)
	if l.said("not used") {
		t.Fatalf("at its first start: %q", l.lines)
	}
	l.kill(syscall.SIGTERM)
	l.awaitsAway()
	l.up("--join", l.n.listen, "--token", "locus1.l.another", "--name", "desk")
	l.awaits("it says so", func() bool { return l.said("this machine is linked already, so --token and --name are not used") })
	l.awaits("the machine is back", func() bool { return l.is(gateway.MachineConnected) })
}
