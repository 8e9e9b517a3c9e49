package python_test

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/kernel/python"
	"github.com/locusrun/locus/node/sandbox"
)

// TestWithoutLandlock has copies kept apart by a pid namespace each.
func TestWithoutLandlock(t *testing.T) {
	s := newHouse(t, func(c *pythonConfig) { c.NoConfinement = true }).session()
	s.must("import os\nx = 1\npid = os.getpid()")
	c, notices := s.fork(kernel.Copy)
	c.Kill()
	if slices.Contains(kinds(notices), "processes_not_isolated") {
		t.Skipf("this machine has no pid namespaces to give: %v", notices)
	}
	for _, code := range []string{"os.kill(pid, 9)", "os.kill(os.getppid(), 9)", "os.kill(0, 9)", "os.kill(-1, 9)", "os.system('kill -9 -1')", "os._exit(0)"} {
		s.peek(code)
		s.expect("[x, os.getpid() == pid]", "[1,true]")
	}
	o := s.peek("import subprocess, threading\nt = threading.Thread(target=print, args=('thread',)); t.start(); t.join()\nsubprocess.run(['echo', 'child'], capture_output=True).stdout.decode()")
	if o.result() != `"child\n"` || o.stdout() != "thread\n" {
		t.Fatalf("got %s, output %q, error %v; want the child's text and the output \"thread\"", o.result(), o.stdout(), o.err)
	}
	// The session itself is where it was: it can start threads and processes.
	s.expect("import threading, subprocess\nt = threading.Thread(target=int); t.start(); t.join()\nsubprocess.run(['true']).returncode", "0")
}

// TestForkAtTheProcessLimitKeepsConfinement has copies made at the container's limit of processes: that
// one was refused is no reason to keep no later copy apart.
func TestForkAtTheProcessLimitKeepsConfinement(t *testing.T) {
	h := newLimitedHouse(t, sandbox.Limits{Processes: 60}, func(c *pythonConfig) { c.NoConfinement = true })
	if by := h.container.Enforced().ContainerProcesses; by != sandbox.ByCgroup1 && by != sandbox.ByCgroup2 {
		t.Skipf("the limit is enforced by %q here, which root does not feel", by)
	}
	h.family.Warm(false)
	s := h.session()
	c, notices := s.fork(kernel.Copy)
	c.Kill()
	if slices.Contains(kinds(notices), "processes_not_isolated") {
		t.Skipf("this machine has no pid namespaces to give: %v", notices)
	}
	s.must(`
import os, signal
children = []
def fill():
    try:
        while len(children) < 200:
            if (pid := os.fork()) == 0:
                while True:
                    signal.pause()
            children.append(pid)
    except BlockingIOError:
        return True
`)
	for range 2 { // a holder may be at hand still
		s.expect("fill()", "true")
		if c, _, err := s.Fork(t.Context(), kernel.Copy, "at the limit"); err == nil {
			c.Kill()
		}
	}
	s.must("for pid in children:\n    os.kill(pid, signal.SIGKILL); os.waitpid(pid, 0)")
	c, notices = s.fork(kernel.Copy)
	c.Kill()
	if slices.Contains(kinds(notices), "processes_not_isolated") {
		t.Fatalf("below the limit again: %v", notices)
	}
}

// TestWithoutNamespaces runs where the machine gives none: what does not hold is said.
func TestWithoutNamespaces(t *testing.T) {
	h := newHouse(t)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	plain, err := sandbox.Open(ctx, sandbox.Config{Name: "plain", Workspace: h.workspace, NoNamespaces: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { plain.Close() })
	s := newHouse(t, func(c *pythonConfig) { c.Container = plain; c.Workspace = h.workspace }).session()
	s.must("x = [1]")
	s.seen("x.append(2); x", "[1,2]")
	s.expect("x", "[1]")
}

func TestNewFamilyRefusesAnInvalidInterpreter(t *testing.T) {
	h := newHouse(t)
	for _, path := range []string{"/no/such/python", "/bin/true", "/bin/cat"} {
		_, err := python.NewFamily(t.Context(), python.Config{Container: h.container, Interpreter: path, Workspace: h.workspace, Env: sandbox.Environment(h.workspace)})
		if err == nil {
			t.Errorf("%s: no error", path)
		}
	}
}

func TestLocate(t *testing.T) {
	path, err := python.Locate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(path, "shims") {
		t.Errorf("%s is a shim", path)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := python.Locate(t.Context()); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("got %v, want exec.ErrNotFound", err)
	}
}

func TestDeathOfTheZygoteIsNoticed(t *testing.T) {
	h := newHouse(t)
	s := h.session()
	s.must("x = 1")
	// Kernels are children of the zygote.
	s.must("import os, signal\nos.kill(os.getppid(), signal.SIGKILL)")
	<-h.family.Done()
	s.expect("x", "1")
	eventually(t, "starts fail", func() bool {
		k, err := h.family.Start(t.Context(), kernel.Session, "late")
		if err == nil {
			k.Kill()
		}
		return err != nil
	})
}

func TestCloseEndsEverything(t *testing.T) {
	h := newHouse(t)
	s := h.session()
	s.must("import subprocess; p = subprocess.Popen(['sleep', '1000'])")
	done := make(chan outcome, 1)
	events := make(chan kernel.Event, 1)
	go func() {
		done <- s.try(kernel.Program{Code: "notify('in')\nwhile True: pass", Events: func(e kernel.Event) { events <- e }})
	}()
	<-events
	if err := h.family.Close(); err != nil {
		t.Fatal(err)
	}
	if o := <-done; o.err == nil {
		t.Fatal("a run outlived its family")
	}
	if _, err := h.family.Start(t.Context(), kernel.Session, "late"); err == nil {
		t.Fatal("a family that is closed starts kernels")
	}
}
