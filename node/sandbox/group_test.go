package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var marks atomic.Int64

// newMark gives an argument for sleep that no other process of the machine has.
func newMark() string { return fmt.Sprintf("99%03d.%d", marks.Add(1), os.Getpid()) }

// fiveVictims is a script that starts what is hard to kill: a child, a grandchild,
// one in a session of its own, and a daemon of two forks that ignores what it can.
// With the script's own shell each mark is borne by five processes.
func fiveVictims(mark string) string {
	return fmt.Sprintf(`
		sleep %[1]s &
		sh -c 'sleep %[1]s & wait' &
		setsid sleep %[1]s &
		(setsid sh -c 'trap "" TERM HUP; (trap "" TERM HUP; exec sleep %[1]s) & exit' </dev/null >/dev/null 2>&1 &)
		exec sleep %[1]s`, mark)
}

func startVictims(t testing.TB, c *Container, g Group) (*Process, string) {
	t.Helper()
	mark := newMark()
	p, _ := shell(t, c, g, fiveVictims(mark))
	eventually(t, "five victims run", func() bool { return len(withMark(t, mark)) == 5 })
	return p, mark
}

func TestKillLeavesNothing(t *testing.T) {
	rounds := 8
	if testing.Short() {
		rounds = 2
	}
	inModes(t, func(t *testing.T, m mode) {
		c := open(t, m.set)
		for range rounds {
			g := newGroup(t, c, Limits{})
			other := newGroup(t, c, Limits{})
			bystander, _ := shell(t, c, other, "exec sleep 1000")
			p, mark := startVictims(t, c, g)
			pids, err := g.Pids()
			if err != nil || len(pids) < 5 {
				t.Fatalf("the group has %v, %v", pids, err)
			}
			if err := g.Kill(); err != nil {
				t.Fatal(err)
			}
			if left := withMark(t, mark); len(left) > 0 {
				t.Fatalf("survivors: %v", left)
			}
			waitFor(t, p.Done(), "the end of the first")
			if e := p.Exit(); e.Signal != unix.SIGKILL || e.OOM {
				t.Errorf("exit is %+v", e)
			}
			if pids, err := g.Pids(); err != nil || len(pids) > 0 {
				t.Errorf("the group still has %v, %v", pids, err)
			}
			select {
			case <-bystander.Done():
				t.Fatal("one of another group was killed")
			default:
			}
			for range 2 {
				if err := g.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if err := other.Close(); err != nil {
				t.Fatal(err)
			}
			waitFor(t, bystander.Done(), "the bystander's end")
		}
	})
}

// TestKillEndlessForks kills a program of which no process lives long enough to
// be found by its pid. Were it to escape, it would end by itself after a while.
func TestKillEndlessForks(t *testing.T) {
	const end = 50_000
	inModes(t, func(t *testing.T, m mode) {
		c := open(t, m.set)
		script := c.cfg.Workspace + "/again"
		text := fmt.Sprintf("echo $1\n[ $1 -ge %d ] || sh $0 $(($1+1)) &\n", end)
		if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			g := newGroup(t, c, Limits{Processes: 64})
			_, r := shell(t, c, g, "sh "+script+" 1")
			// The pipe ends only when nobody is left to hold it.
			if err := r.SetReadDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			steps := bufio.NewScanner(r)
			for steps.Scan() && steps.Text() != "50" {
			}
			if err := g.Kill(); err != nil {
				t.Fatal(err)
			}
			last := ""
			for steps.Scan() {
				last = steps.Text()
			}
			if err := steps.Err(); err != nil {
				t.Errorf("somebody lives: %v", err)
			}
			if last == strconv.Itoa(end) {
				t.Error("it ended by itself")
			}
		}
	})
}

// mustTick waits for a tick of a script's clock.
func mustTick(t *testing.T, r *os.File, when string) {
	t.Helper()
	if err := r.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(make([]byte, 1)); err != nil {
		t.Fatalf("it does not tick %s: %v", when, err)
	}
}

// heard counts the ticks of a while.
func heard(t *testing.T, r *os.File, wait time.Duration) int {
	t.Helper()
	if err := r.SetReadDeadline(time.Now().Add(wait)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	total := 0
	for {
		n, err := r.Read(buf)
		total += n
		if os.IsTimeout(err) {
			return total
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// mustNotTick takes in what was under way and then listens for a while.
func mustNotTick(t *testing.T, r *os.File, when string) {
	t.Helper()
	heard(t, r, 20*time.Millisecond)
	if n := heard(t, r, 250*time.Millisecond); n > 0 {
		t.Errorf("%d ticks %s", n, when)
	}
}

func TestFreezeAndThaw(t *testing.T) {
	inModes(t, func(t *testing.T, m mode) {
		c := open(t, m.set)
		g := newGroup(t, c, Limits{})
		p, r := shell(t, c, g, `while :; do echo; sleep 0.01; done`)
		mustTick(t, r, "at first")
		if err := g.Freeze(); err != nil {
			t.Fatal(err)
		}
		mustNotTick(t, r, "while frozen")
		if err := g.KillExcept([]int{p.Pid()}); err != nil {
			t.Fatal(err)
		}
		mustNotTick(t, r, "after KillExcept in a frozen group")
		if err := g.Thaw(); err != nil {
			t.Fatal(err)
		}
		mustTick(t, r, "after the thaw")
		if err := g.Freeze(); err != nil {
			t.Fatal(err)
		}
		if err := g.Kill(); err != nil {
			t.Fatal(err)
		}
		waitFor(t, p.Done(), "the end of a frozen process")
	})
}

func TestKillExceptSpares(t *testing.T) {
	inModes(t, func(t *testing.T, m mode) {
		c := open(t, m.set)
		g := newGroup(t, c, Limits{})
		kernel, job, late := newMark(), newMark(), newMark()
		// The job waits for the call's own processes before it forks a child.
		script := fmt.Sprintf(`
			sh -c 'until [ -e go ]; do sleep 0.01; done; sleep %[2]s & exec sleep %[2]s' &
			until [ -e late ]; do sleep 0.01; done
			sleep %[3]s & setsid sleep %[3]s &
			(setsid sh -c 'sleep %[3]s & exit' &)
			exec sleep %[1]s`, kernel, job, late)
		p, _ := shell(t, c, g, script)
		touch := func(name string) {
			if err := os.WriteFile(c.cfg.Workspace+"/"+name, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		touch("go")
		eventually(t, "the job and its child run", func() bool { return len(withMark(t, job)) == 2 })
		jobs := withMark(t, job)
		slices.Sort(jobs)
		parent, child := jobs[0], jobs[1]
		if s, err := ReadStat(child); err != nil || s.Parent != parent {
			parent, child = child, parent
		}
		touch("late")
		eventually(t, "the call's processes run", func() bool { return len(withMark(t, late)) == 3 && len(withMark(t, kernel)) == 1 })
		if err := g.KillExcept([]int{p.Pid(), parent}); err != nil {
			t.Fatal(err)
		}
		if left := withMark(t, late); len(left) > 0 {
			t.Errorf("survivors: %v", left)
		}
		if left := withMark(t, job); len(left) != 2 {
			t.Errorf("of the job and its child only %v are left", left)
		}
		// They must not only exist but run.
		if err := unix.Kill(child, unix.SIGTERM); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the spared child obeys", func() bool { return len(withMark(t, job)) == 1 })
		select {
		case <-p.Done():
			t.Error("the kernel was killed")
		default:
		}
		if err := g.KillExcept([]int{p.Pid()}); err != nil {
			t.Fatal(err)
		}
		if left := withMark(t, job); len(left) > 0 {
			t.Errorf("survivors of the second time: %v", left)
		}
		if err := p.Signal(unix.SIGTERM); err != nil {
			t.Fatal(err)
		}
		waitFor(t, p.Done(), "the kernel obeying")
	})
}

// TestCopyLeavesItsSession adds a process that a member of one group forked to
// another group.
func TestCopyLeavesItsSession(t *testing.T) {
	inModes(t, func(t *testing.T, m mode) {
		c := open(t, m.set)
		session, copied := newGroup(t, c, Limits{}), newGroup(t, c, Limits{})
		z := newZygote(t, c)
		if err := session.Add(z.process.Pid()); err != nil {
			t.Fatal(err)
		}
		p := z.fork("sleep 1000 & exec sleep 1000")
		eventually(t, "the copy has a child", func() bool {
			below, err := descendantsOf(p.Pid())
			return err == nil && len(below) == 1
		})
		if err := copied.Add(p.Pid()); err != nil {
			t.Fatal(err)
		}
		if pids, err := copied.Pids(); err != nil || len(pids) != 2 {
			t.Errorf("the copy's group has %v, %v", pids, err)
		}
		if err := session.KillExcept([]int{z.process.Pid()}); err != nil {
			t.Fatal(err)
		}
		if pids, err := copied.Pids(); err != nil || len(pids) != 2 {
			t.Errorf("after the session's kill the copy's group has %v, %v", pids, err)
		}
		if err := copied.Close(); err != nil {
			t.Fatal(err)
		}
		waitFor(t, p.Done(), "the copy's end")
		select {
		case <-z.process.Done():
			t.Error("the session was killed with its copy")
		default:
		}
	})
}

func TestSpawnIntoFrozenGroup(t *testing.T) {
	inModes(t, func(t *testing.T, m mode) {
		c := open(t, m.set)
		g := newGroup(t, c, Limits{})
		if err := g.Freeze(); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Spawn(t.Context(), Command{Path: "/bin/true", Group: g}); !errors.Is(err, ErrFrozen) {
			t.Errorf("it starts: %v", err)
		}
		if err := g.Thaw(); err != nil {
			t.Fatal(err)
		}
		// Freezing and starting at the same time must not block either.
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 10 {
					p, err := c.Spawn(t.Context(), Command{Path: "/bin/true", Group: g})
					if err == nil {
						defer waitFor(t, p.Done(), "an end")
					} else if !errors.Is(err, ErrFrozen) {
						t.Error(err)
					}
				}
			})
		}
		for range 20 {
			if err := errors.Join(g.Freeze(), g.Thaw()); err != nil {
				t.Error(err)
			}
		}
		all.Wait()
	})
}
