package sandbox

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// Group is a set of processes that can be found, frozen and killed without exception,
// including daemons. It is safe for concurrent use. All waits are bounded by a few seconds.
type Group interface {
	// Add moves a process, by the node's pid, and its present and later descendants into
	// the group, out of the group that it was in.
	Add(pid int) error
	// Pids lists the processes, by the node's pids.
	Pids() ([]int, error)
	// Freeze stops all processes, so that they use no CPU time and can notice it only by
	// the clock.
	Freeze() error
	// Thaw continues them.
	Thaw() error
	// KillExcept kills everything in the group except the pids in keep, and waits for the
	// ends. A kept process that was not itself added, such as a job that was left running
	// on purpose, keeps its descendants too; one that was added, such as a session's own
	// process, keeps only itself. Processes cannot escape by forking. With no pids it
	// kills everything.
	KillExcept(keep []int) error
	// Kill kills everything and waits until the group is empty.
	Kill() error
	// MemoryPeak returns the group's peak memory in bytes; 0 if unknown.
	MemoryPeak() int64
	// OOMKills returns how many processes of the group were killed because of a memory
	// limit; 0 if unknown.
	OOMKills() int
	// Close kills everything and removes the group. It is idempotent.
	Close() error
}

// holder keeps track of a group's processes, by a control group or by tags.
type holder interface {
	add(pid int) error
	pids() ([]int, error)
	freeze(on bool) error
	// killExcept kills all processes except those that spared selects from its argument;
	// nil spares none. With stay set, the group stays frozen.
	killExcept(spared func(pids []int) []int, stay bool) error
	remove() error
}

// meter measures a group's memory.
type meter interface {
	peak() int64
	ooms() int
}

// account counts or limits a group's processes in addition to its holder, in a v1 control
// group for example.
type account interface {
	add(pid int) error
	remove() error
}

// group implements Group with a holder, accounts and a meter.
type group struct {
	name      string
	container *Container
	holder    holder
	accounts  []account
	meter     meter // nil if memory is not measured
	// born is a descriptor of the v2 control group's directory, in which processes can be
	// created by clone3; -1 if there is none.
	born int
	// tag marks the group's processes for a tagHolder or the sampler; else 0.
	tag    uint64
	claims oomClaims

	// births is held for reading while a process is spawned into the group, and for
	// writing while the group is frozen or killed. It is locked before mu.
	births sync.RWMutex

	mu       sync.Mutex
	added    map[int]bool
	frozen   bool
	killed   map[int]bool // added ones that we killed, whose SIGKILL is not an OOM kill
	closed   bool
	closeErr error
}

var _ Group = (*group)(nil)

func (g *group) Add(pid int) error {
	g.join(pid)
	if err := g.place(pid, true); err != nil {
		return fmt.Errorf("sandbox: adding %d to group %s: %w", pid, g.name, err)
	}
	return nil
}

// join records that a process belongs to the group.
func (g *group) join(pid int) {
	g.mu.Lock()
	g.added[pid] = true
	g.mu.Unlock()
	g.container.joined(pid, g)
}

// place moves a process and its present descendants into the holder and the accounts. move
// is false if it was created in the holder.
func (g *group) place(pid int, move bool) error {
	g.mu.Lock()
	closed := g.closed
	g.mu.Unlock()
	if closed {
		return errClosed
	}
	if !move && len(g.accounts) == 0 {
		return nil
	}
	if err := g.placeOne(pid, move); err != nil {
		return err
	}
	taken := map[int]bool{}
	for {
		below, err := descendantsOf(pid)
		if err != nil {
			return err
		}
		below = slices.DeleteFunc(below, func(p int) bool { return taken[p] })
		if len(below) == 0 {
			return nil
		}
		for _, p := range below {
			taken[p] = true
			if err := g.placeOne(p, move); err != nil && !gone(err) {
				return err
			}
		}
	}
}

func (g *group) placeOne(pid int, move bool) error {
	if move {
		if err := g.holder.add(pid); err != nil {
			return err
		}
	}
	for _, a := range g.accounts {
		if err := a.add(pid); err != nil {
			return err
		}
	}
	return nil
}

// birthplace returns a descriptor of the control group's directory in which a process can
// be created, if there is one. The caller closes it and holds births.
func (g *group) birthplace() (int, bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return -1, false, errClosed
	}
	if g.frozen {
		return -1, false, ErrFrozen
	}
	if g.born < 0 {
		return -1, false, nil
	}
	fd, err := unix.FcntlInt(uintptr(g.born), unix.F_DUPFD_CLOEXEC, 3)
	return fd, err == nil, err
}

func (g *group) Pids() ([]int, error) { return g.holder.pids() }

func (g *group) Freeze() error { return g.setFrozen(true) }
func (g *group) Thaw() error   { return g.setFrozen(false) }

func (g *group) setFrozen(on bool) error {
	g.births.Lock()
	defer g.births.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return errClosed
	}
	if err := g.holder.freeze(on); err != nil {
		return fmt.Errorf("sandbox: freezing or thawing group %s: %w", g.name, err)
	}
	g.frozen = on
	return nil
}

func (g *group) Kill() error { return g.KillExcept(nil) }

func (g *group) KillExcept(keep []int) error {
	g.births.Lock()
	defer g.births.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	var spared func([]int) []int
	if len(keep) > 0 {
		spared = func(pids []int) []int { return g.spared(pids, keep) }
	} else {
		for pid := range g.added {
			g.killed[pid] = true
		}
	}
	if err := g.holder.killExcept(spared, g.frozen); err != nil {
		return fmt.Errorf("sandbox: killing group %s: %w", g.name, err)
	}
	return nil
}

// spared selects from the group's processes the kept ones, and the descendants of kept ones
// that were not added. The caller holds g.mu.
func (g *group) spared(pids, keep []int) []int {
	parents := make(map[int]int, len(pids))
	for _, pid := range pids {
		if s, err := ReadStat(pid); err == nil {
			parents[pid] = s.Parent
		}
	}
	var spared []int
	for _, pid := range pids {
		at, steps := pid, 0
		for ; steps <= len(pids); steps++ {
			if slices.Contains(keep, at) && (at == pid || !g.added[at]) {
				spared = append(spared, pid)
				break
			}
			parent, ok := parents[at]
			if !ok {
				break
			}
			at = parent
		}
	}
	for pid := range g.added {
		g.killed[pid] = !slices.Contains(spared, pid)
	}
	return spared
}

func (g *group) MemoryPeak() int64 {
	if g.meter == nil {
		return 0
	}
	return g.meter.peak()
}

func (g *group) OOMKills() int {
	if g.meter == nil {
		return 0
	}
	return g.meter.ooms()
}

func (g *group) Close() error {
	if err := g.Kill(); err != nil {
		return err
	}
	return g.dissolve()
}

// dissolve removes a group without living processes.
func (g *group) dissolve() error {
	g.mu.Lock()
	if g.closed {
		defer g.mu.Unlock()
		return g.closeErr
	}
	g.closed = true
	if g.born >= 0 {
		unix.Close(g.born)
		g.born = -1
	}
	for _, a := range g.accounts {
		g.closeErr = errors.Join(g.closeErr, a.remove())
	}
	g.closeErr = errors.Join(g.closeErr, g.holder.remove())
	if m, ok := g.meter.(*sampledMeter); ok {
		m.sampler.forget(m)
	}
	err := g.closeErr
	g.mu.Unlock()
	g.container.left(g)
	return err
}

// ended records the end of a process, whose pid may be reused from now on. It reports
// whether we killed it.
func (g *group) ended(pid int) (killed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	killed = g.killed[pid]
	delete(g.added, pid)
	delete(g.killed, pid)
	return killed
}
