package sandbox

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// containerCgroups are the control groups of one container, one in each usable hierarchy.
// The control groups of the container's groups are made below them. An empty path means
// that the hierarchy is not used.
type containerCgroups struct {
	unified string
	code    string // below unified, the parent of the groups
	memory2 bool
	pids2   bool
	cpu2    bool
	memory1 string
	pids1   string
	// cpu1 gives all processes of the container one CPU share together, as a v2 group with
	// the cpu controller does.
	cpu1 string
	// memory1Used and pids1Used are true once a group with its own control group of that
	// controller was made.
	memory1Used atomic.Bool
	pids1Used   atomic.Bool
	locks       []*os.File
	problems    []string
}

// A v2 group that enables controllers for its children must not have processes, so the
// keeper has a leaf of its own. It is not below the code's group, which the keeper freezes.
const (
	keeperCgroup = "keeper"
	codeCgroup   = "code"
)

// newContainerCgroups makes a container's control groups with their limits. It fails if the
// machine allows none.
func newContainerCgroups(l Limits) (*containerCgroups, error) {
	base := findCgroupBase()
	if base.unified == "" && base.memory1 == "" && base.pids1 == "" && base.cpu1 == "" {
		return nil, fmt.Errorf("none can be made: %v", base.problems)
	}
	var failed error
	// Another node that starts at this moment may mistake a new directory that is not locked
	// yet for a stale one and remove it. Then try again.
	for range 3 {
		g := &containerCgroups{problems: base.problems}
		err := g.make(base, cgroupPrefix+rand.Text()[:12], l)
		if err == nil {
			return g, nil
		}
		failed = errors.Join(err, g.remove())
	}
	return nil, failed
}

func (g *containerCgroups) make(base cgroupBase, name string, l Limits) (err error) {
	claim := func(parent string, limit func(dir string) error) string {
		if parent == "" || err != nil {
			return ""
		}
		dir := filepath.Join(parent, name)
		if err = newCgroup(dir); err != nil {
			return ""
		}
		var lock *os.File
		if lock, err = lockDir(dir); err == nil {
			g.locks = append(g.locks, lock)
			_, err = os.Stat(dir)
		}
		if err == nil {
			err = limit(dir)
		}
		return dir
	}
	g.memory1 = claim(base.memory1, func(dir string) error { return boundMemory(dir, l, limitMemory1) })
	g.pids1 = claim(base.pids1, func(dir string) error { return boundProcesses(dir, l) })
	g.cpu1 = claim(base.cpu1, func(string) error { return nil })
	g.unified = claim(base.unified, func(dir string) error {
		g.code = filepath.Join(dir, codeCgroup)
		if base.memory2 || base.pids2 {
			if err := enableControllers(dir, "memory", "pids"); err != nil {
				return err
			}
		}
		g.memory2, g.pids2, g.cpu2 = base.memory2, base.pids2, base.cpu2
		if g.memory2 {
			if err := boundMemory(dir, l, limitMemory2); err != nil {
				return err
			}
		}
		if g.pids2 {
			if err := boundProcesses(dir, l); err != nil {
				return err
			}
		}
		if err := newCgroup(g.code); err != nil {
			return err
		}
		if base.memory2 || base.pids2 {
			if err := enableControllers(g.code, "memory", "pids"); err != nil {
				return err
			}
		}
		return newCgroup(filepath.Join(dir, keeperCgroup))
	})
	return err
}

func boundMemory(dir string, l Limits, set func(dir string, bytes int64) error) error {
	if l.Memory == 0 {
		return nil
	}
	return set(dir, l.Memory)
}

func boundProcesses(dir string, l Limits) error {
	if l.Processes == 0 {
		return nil
	}
	return limitProcesses(dir, l.Processes+keeperThreads)
}

// takeKeeper moves the keeper into the control groups, before it has children.
func (g *containerCgroups) takeKeeper(pid int) error {
	var err error
	if g.unified != "" {
		err = writeControl(filepath.Join(g.unified, keeperCgroup), "cgroup.procs", strconv.Itoa(pid))
	}
	for _, dir := range []string{g.memory1, g.pids1, g.cpu1} {
		if dir != "" {
			err = errors.Join(err, writeControl(dir, "cgroup.procs", strconv.Itoa(pid)))
		}
	}
	return err
}

// stir moves the keeper to the group in which it already is, in the hierarchy to which
// processes are moved first. See Container.WarmUp.
func (g *containerCgroups) stir(keeper int) error {
	dir := g.unified
	if dir != "" {
		dir = filepath.Join(dir, keeperCgroup)
	}
	dir = cmp.Or(dir, g.memory1, g.pids1)
	if dir == "" {
		return nil
	}
	return writeControl(dir, "cgroup.procs", strconv.Itoa(keeper))
}

func (g *containerCgroups) boundsMemory() bool    { return g.memory1 != "" || g.memory2 }
func (g *containerCgroups) boundsProcesses() bool { return g.pids1 != "" || g.pids2 }

// meter returns the meter of the container's memory; nil if memory is not accounted.
func (g *containerCgroups) meter() meter {
	switch {
	case g.memory2:
		return unifiedMeter{g.unified}
	case g.memory1 != "":
		return v1Meter{g.memory1}
	}
	return nil
}

// remove kills all processes in the control groups and removes the groups.
func (g *containerCgroups) remove() error {
	var err error
	for _, dir := range []string{g.unified, g.memory1, g.pids1, g.cpu1} {
		if dir != "" {
			err = errors.Join(err, removeCgroup(dir))
		}
	}
	for _, lock := range g.locks {
		err = errors.Join(err, lock.Close())
	}
	g.locks = nil
	return err
}

// hold sets up a new group: its holder, accounts and meter, with the limits.
func (c *Container) hold(g *group, name string, l Limits) (err error) {
	defer func() {
		if err != nil {
			for _, a := range g.accounts {
				err = errors.Join(err, a.remove())
			}
			if g.holder != nil {
				err = errors.Join(err, g.holder.remove())
			}
		}
	}()
	cg := c.cgroups
	if cg == nil {
		cg = &containerCgroups{}
	}
	if err := g.limitV1(cg, name, l); err != nil {
		return err
	}
	if cg.unified != "" {
		return c.holdUnified(g, filepath.Join(cg.code, name), l)
	}
	g.tag = newGroupTag()
	g.holder = newTagHolder(tag{container: c.tag, group: g.tag})
	if l.Memory > 0 && g.meter == nil {
		g.meter = c.sample(g.tag, l.Memory)
	}
	return nil
}

// limitV1 sets the limits for which v1 has a controller and v2 does not.
func (g *group) limitV1(cg *containerCgroups, name string, l Limits) error {
	if cg.memory1 != "" && !cg.memory2 {
		dir, err := g.account(&cg.memory1Used, cg.memory1, name, l.Memory > 0, func(dir string) error { return limitMemory1(dir, l.Memory) })
		if err != nil {
			return err
		}
		if dir != "" {
			g.meter = v1Meter{dir}
		}
	}
	if cg.pids1 != "" && !cg.pids2 {
		_, err := g.account(&cg.pids1Used, cg.pids1, name, l.Processes > 0, func(dir string) error { return limitProcesses(dir, l.Processes) })
		return err
	}
	return nil
}

// holdUnified makes a v2 control group for the group, with the limits for which v2 has a
// controller.
func (c *Container) holdUnified(g *group, dir string, l Limits) error {
	if err := newCgroup(dir); err != nil {
		return err
	}
	g.holder = unifiedHolder{dir}
	if c.cgroups.memory2 {
		g.meter = unifiedMeter{dir}
		if l.Memory > 0 {
			if err := limitMemory2(dir, l.Memory); err != nil {
				return err
			}
		}
	}
	if c.cgroups.pids2 && l.Processes > 0 {
		if err := limitProcesses(dir, l.Processes); err != nil {
			return err
		}
	}
	if l.Memory > 0 && g.meter == nil {
		// The control group has no memory controller, so memory is sampled by tag.
		g.tag = newGroupTag()
		g.accounts = append(g.accounts, tagAccount{tag{container: c.tag, group: g.tag}})
		g.meter = c.sample(g.tag, l.Memory)
	}
	var err error
	g.born, err = unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	return err
}

// account accounts a group's processes in a v1 control group: with own set, in a new one
// below the container's, whose path it returns, else in the container's.
func (g *group) account(used *atomic.Bool, home, name string, own bool, limit func(dir string) error) (string, error) {
	if !own {
		g.accounts = append(g.accounts, homeAccount{home, used})
		return "", nil
	}
	used.Store(true)
	dir := filepath.Join(home, name)
	if err := newCgroup(dir, limit); err != nil {
		return "", err
	}
	g.accounts = append(g.accounts, v1Account{dir})
	return dir, nil
}

// tagAccount marks the processes of a group for the sampler.
type tagAccount struct{ tag tag }

func (a tagAccount) add(pid int) error { return setTag(pid, a.tag) }
func (a tagAccount) remove() error     { return nil }
