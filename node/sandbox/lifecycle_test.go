package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestKeeperKilled(t *testing.T) {
	inModes(t, func(t *testing.T, m mode) {
		c := open(t, m.set)
		g := newGroup(t, c, Limits{})
		p, mark := startVictims(t, c, g)
		adopted := newZygote(t, c).fork("exec sleep 1000")
		if err := unix.Kill(c.keeper.pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		waitFor(t, c.Done(), "the container's end")
		waitFor(t, p.Done(), "the end of the spawned")
		waitFor(t, adopted.Done(), "the end of the adopted")
		if left := withMark(t, mark); len(left) > 0 {
			t.Errorf("survivors: %v", left)
		}
		for _, e := range []Exit{p.Exit(), adopted.Exit()} {
			if e.Known && e.Signal != unix.SIGKILL || e.OOM {
				t.Errorf("exit is %+v", e)
			}
		}
		if _, err := c.Spawn(t.Context(), Command{Path: "/bin/true"}); err == nil {
			t.Error("a dead container spawns")
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestCloseLeavesNothing(t *testing.T) {
	inModes(t, func(t *testing.T, m mode) {
		c := open(t, m.set)
		p, mark := startVictims(t, c, newGroup(t, c, Limits{Memory: 1 << 30, Processes: 100}))
		q, mark2 := startVictims(t, c, nil)
		frozen := newGroup(t, c, Limits{})
		f, _ := shell(t, c, frozen, "exec sleep 1000")
		if err := frozen.Freeze(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range []*Process{p, q, f} {
			waitFor(t, p.Done(), "the end of a process")
		}
		if left := append(withMark(t, mark), withMark(t, mark2)...); len(left) > 0 {
			t.Errorf("survivors: %v", left)
		}
		if c.cgroups != nil {
			for _, dir := range []string{c.cgroups.unified, c.cgroups.memory1, c.cgroups.pids1, c.cgroups.cpu1} {
				if _, err := os.Stat(dir); dir != "" && !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%s is left: %v", dir, err)
				}
			}
		}
		if _, err := c.Spawn(t.Context(), Command{Path: "/bin/true"}); err == nil {
			t.Error("a closed container spawns")
		}
		if _, err := c.NewGroup("late", Limits{}); err == nil {
			t.Error("a closed container makes groups")
		}
	})
}

// TestNodeKilled kills a whole node, and in a second round one whose keeper is
// stopped and so cannot notice.
func TestNodeKilled(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		inModes(t, func(t *testing.T, m mode) {
			if stopped && m.noNamespaces {
				t.Skip("nobody is left that could do it")
			}
			mark := newMark()
			node := exec.Command("/proc/self/exe")
			node.Env = append(os.Environ(), roleVariable+"=node", "WORKSPACE="+t.TempDir(), "MARK="+mark)
			if m.noNamespaces {
				node.Env = append(node.Env, "NO_NAMESPACES=1")
			}
			if m.noCgroups {
				node.Env = append(node.Env, "NO_CGROUPS=1")
			}
			out, err := node.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			node.Stderr = t.Output()
			if err := node.Start(); err != nil {
				t.Fatal(err)
			}
			ended := false
			defer func() {
				if !ended {
					_ = node.Process.Kill()
					_ = node.Wait()
				}
			}()
			line, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			var keeper int
			if _, err := fmt.Sscan(line, &keeper); err != nil {
				t.Fatal(err)
			}
			cgroup := strings.TrimSpace(strings.TrimPrefix(line, itoa(keeper)))
			eventually(t, "five victims run", func() bool { return len(withMark(t, mark)) == 5 })
			if stopped {
				if err := unix.Kill(keeper, unix.SIGSTOP); err != nil {
					t.Fatal(err)
				}
			}
			if err := node.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = node.Wait() // killed, which is an error
			ended = true
			eventually(t, "the victims of a dead node are gone", func() bool { return len(withMark(t, mark)) == 0 })
			eventually(t, "the keeper of a dead node is gone", func() bool {
				s, err := ReadStat(keeper)
				return gone(err) || err == nil && s.Dead()
			})
			if cgroup == "" {
				return
			}
			// Another node that starts just now may be the one that removes them.
			eventually(t, "the control groups of a dead node are removed", func() bool {
				left := 0
				for _, root := range findCgroupBase().roots {
					removeStale(root)
					_ = filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
						if err == nil && filepath.Base(path) == filepath.Base(cgroup) {
							left++
						}
						return nil
					})
				}
				return left == 0
			})
		})
	}
}

func TestStaleCgroupsOfLivingNodesStay(t *testing.T) {
	c := open(t)
	if c.cgroups == nil || c.cgroups.unified == "" {
		t.Skip("no control groups here")
	}
	for _, root := range findCgroupBase().roots {
		removeStale(root)
	}
	if _, err := os.Stat(c.cgroups.unified); err != nil {
		t.Error(err)
	}
	if _, exit := run(t, c, "exit 2"); exit.Code != 2 {
		t.Errorf("exit is %+v", exit)
	}
}
