package sandbox

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const megabyte = 1 << 20

// eat has a program take so many megabytes in a group, and gives its process and
// its output.
func eat(t *testing.T, c *Container, g Group, megabytes int) (*Process, *bufio.Scanner, func()) {
	t.Helper()
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { inW.Close(); outR.Close() })
	p := playIn(t, c, g, "eater", []*os.File{inR, outW, outW}, "MEGABYTES="+itoa(megabytes))
	inR.Close()
	outW.Close()
	return p, bufio.NewScanner(outR), func() { inW.Close() }
}

func TestMemoryLimitOfGroup(t *testing.T) {
	inModes(t, func(t *testing.T, m mode) {
		c := open(t, m.set)
		g, other := newGroup(t, c, Limits{Memory: 128 * megabyte}), newGroup(t, c, Limits{Memory: 128 * megabyte})
		small, out, _ := eat(t, c, other, 20)
		if !out.Scan() || !strings.HasPrefix(out.Text(), "full") {
			t.Fatalf("the modest one says %q", out.Text())
		}
		// Slowly enough for the sampler would be a lie; it must see the memory held.
		p, _, _ := eat(t, c, g, 400)
		waitFor(t, p.Done(), "the end for memory")
		if e := p.Exit(); !e.OOM || e.Signal != unix.SIGKILL {
			t.Errorf("exit is %+v", e)
		}
		if n := g.OOMKills(); n != 1 {
			t.Errorf("%d kills for memory", n)
		}
		if peak := g.MemoryPeak(); peak < 60*megabyte {
			t.Errorf("the peak is %d", peak)
		}
		if err := other.Kill(); err != nil {
			t.Fatal(err)
		}
		waitFor(t, small.Done(), "the end of the modest one")
		if e := small.Exit(); e.OOM || e.Signal != unix.SIGKILL {
			t.Errorf("the exit of the modest one is %+v", e)
		}
		if n := other.OOMKills(); n != 0 {
			t.Errorf("%d kills for memory in the other group", n)
		}
	})
}

// TestChildKilledForMemory has the limit hit a child of the group's first process.
func TestChildKilledForMemory(t *testing.T) {
	inModes(t, func(t *testing.T, m mode) {
		c := open(t, m.set)
		g := newGroup(t, c, Limits{Memory: 128 * megabyte})
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		p, r := shell(t, c, g, roleVariable+"=eater MEGABYTES=400 "+self+"; echo status $?; read x; exit 9")
		out, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		waitFor(t, p.Done(), "the end of the shell")
		if !strings.Contains(string(out), "status 137") {
			t.Errorf("the shell saw %q", out)
		}
		if e := p.Exit(); e.OOM || e.Code != 9 {
			t.Errorf("the exit of the shell is %+v", e)
		}
		if n := g.OOMKills(); n != 1 {
			t.Errorf("%d kills for memory", n)
		}
	})
}

func TestMemoryLimitOfContainer(t *testing.T) {
	inModes(t, func(t *testing.T, m mode) {
		c := open(t, m.set, func(cfg *Config) { cfg.Limits.Memory = 192 * megabyte })
		p, _, _ := eat(t, c, nil, 400)
		waitFor(t, p.Done(), "the end for memory")
		if e := p.Exit(); !e.OOM {
			t.Errorf("exit is %+v", e)
		}
		if _, exit := run(t, c, "exit 2"); exit.Code != 2 {
			t.Errorf("afterwards: %+v", exit)
		}
	})
}

// countForks says how many sleeps could be started at once.
const countForks = `i=0; while [ $i -lt 60 ]; do sleep 1000 & i=$((i+1)); done; echo all`

func TestProcessLimitOfGroup(t *testing.T) {
	c := open(t)
	if c.Enforced().GroupProcesses == "" {
		t.Skip("not enforced here")
	}
	g := newGroup(t, c, Limits{Processes: 20})
	_, r := shell(t, c, g, countForks)
	text, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text, "fork") {
		t.Errorf("the shell says %q", text)
	}
	if pids, err := g.Pids(); err != nil || len(pids) > 20 {
		t.Errorf("%d processes, %v", len(pids), err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestProcessLimitOfContainer(t *testing.T) {
	c := open(t, func(cfg *Config) { cfg.Limits.Processes = 20 })
	if c.Enforced().ContainerProcesses == "" {
		t.Skip("not enforced here")
	}
	g := newGroup(t, c, Limits{})
	_, r := shell(t, c, g, countForks)
	text, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text, "fork") {
		t.Errorf("the shell says %q", text)
	}
	if pids, err := g.Pids(); err != nil || len(pids) > 20+keeperThreads {
		t.Errorf("%d processes, %v", len(pids), err)
	}
}

// All that a container runs, a daemon of one of its groups too, is in the one control group
// that has a share of the processors.
func TestProcessorsAreShared(t *testing.T) {
	c := open(t)
	var group string
	switch c.Enforced().Processors {
	case ByCgroup1:
		group = filepath.Base(c.cgroups.cpu1)
	case ByCgroup2:
		group = filepath.Base(c.cgroups.unified)
	default:
		t.Skip("not enforced here")
	}
	_, r := shell(t, c, newGroup(t, c, Limits{Processes: 20}), "setsid sh -c 'cat /proc/self/cgroup; echo; exec sleep 1000' & exec sleep 1000")
	found := false
	for lines := bufio.NewScanner(r); lines.Scan() && lines.Text() != ""; {
		f := strings.SplitN(lines.Text(), ":", 3)
		shares := c.cgroups.cpu2 && f[1] == "" || slices.Contains(strings.Split(f[1], ","), "cpu")
		found = found || shares && slices.Contains(strings.Split(f[2], "/"), group)
	}
	if !found {
		t.Errorf("a process of the container is not in %s", group)
	}
}

// TestProcessMovesOutOfALimitedGroup moves a process, and one that it forked before, out of
// a group with limits, which then is closed.
func TestProcessMovesOutOfALimitedGroup(t *testing.T) {
	inModes(t, func(t *testing.T, m mode) {
		c := open(t, m.set)
		limited, free := newGroup(t, c, Limits{Memory: 1 << 30, Processes: 50}), newGroup(t, c, Limits{})
		p, _ := shell(t, c, limited, "sleep 1000 & exec sleep 1000")
		eventually(t, "the child is there", func() bool {
			pids, err := limited.Pids()
			return err == nil && len(pids) == 2
		})
		if err := free.Add(p.Pid()); err != nil {
			t.Fatal(err)
		}
		if err := limited.Close(); err != nil {
			t.Fatal(err)
		}
		if pids, err := free.Pids(); err != nil || len(pids) != 2 {
			t.Errorf("in the other group there are %v, %v", pids, err)
		}
		select {
		case <-p.Done():
			t.Error("it was killed with the group that it had left")
		default:
		}
	})
}
