package sandbox

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// errNotInside is the error of a pidfd whose process is not in the container.
var errNotInside = errors.New("sandbox: the process is not in the container")

// Adopt watches a process that was forked inside the container, such as a copy of a
// session. It takes ownership of the pidfd, which came over SCM_RIGHTS, even if it fails.
// After the exit status was read from the zombie, reap is called once, on a goroutine of
// its own, to ask the parent to reap the process; it may be nil. A process outside of the
// container is refused.
func (c *Container) Adopt(pidfd *os.File, reap func()) (*Process, error) {
	fd, err := unix.FcntlInt(pidfd.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	err = errors.Join(err, pidfd.Close())
	if err != nil {
		if fd >= 0 {
			unix.Close(fd)
		}
		return nil, fmt.Errorf("sandbox: adopting: %w", err)
	}
	pid, err := pidOf(fd)
	if err == nil {
		err = c.contains(pid)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("sandbox: adopting: %w", err)
	}
	p := &Process{pid: pid, pidfd: fd, reap: reap, done: make(chan struct{})}
	if err := c.watchProcess(p); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return p, nil
}

// contains checks that a process, alive or a zombie, has the container's tag. Code inside
// cannot set the tag of a process outside.
func (c *Container) contains(pid int) error {
	t, err := tagOf(pid)
	if err != nil {
		return err
	}
	if t.container != c.tag {
		return errNotInside
	}
	return nil
}

// follow watches a process that the keeper has started, and records its group.
func (c *Container) follow(order *pendingSpawn, pidfd int) (*Process, error) {
	id, g := order.id, order.group
	pid, err := pidOf(pidfd)
	if err != nil {
		unix.Close(pidfd)
		return nil, err
	}
	p := &Process{pid: pid, pidfd: pidfd, reported: make(chan struct{}), done: make(chan struct{})}
	c.mu.Lock()
	c.spawned[id] = p
	c.mu.Unlock()
	if g != nil {
		g.join(pid)
		if h, ok := g.holder.(*tagHolder); ok {
			h.lead(pid, pidfd)
		}
	}
	if err := c.watchProcess(p); err != nil {
		_ = unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0)
		c.mu.Lock()
		delete(c.spawned, id)
		c.mu.Unlock()
		unix.Close(pidfd)
		return nil, err
	}
	return p, nil
}

func (c *Container) watchProcess(p *Process) error {
	c.mu.Lock()
	if c.closing {
		c.mu.Unlock()
		return errClosed
	}
	c.living[p] = true
	c.mu.Unlock()
	if err := c.watch.add(p.pidfd, func() { c.ended(p) }); err != nil {
		c.removeProcess(p)
		return err
	}
	return nil
}

// exited handles the keeper's report of an exit.
func (c *Container) exited(m message) {
	c.mu.Lock()
	p := c.spawned[m.ID]
	delete(c.spawned, m.ID)
	c.mu.Unlock()
	if p == nil {
		return // follow has failed for it
	}
	p.status, p.cpu = m.Exit, m.CPU
	close(p.reported)
}

// ended is called when a process's pidfd shows its end. It determines the exit.
func (c *Container) ended(p *Process) {
	var exit Exit
	if p.reported == nil {
		exit = readExit(p.pid, p.pidfd)
	} else {
		exit = c.reportedExit(p)
	}
	c.mu.Lock()
	g := c.members[p.pid]
	delete(c.members, p.pid)
	c.mu.Unlock()
	exit.OOM = c.diedOfMemory(p, exit, g)
	p.closePidfd()
	p.end(exit)
	if p.reap != nil {
		p.reap()
	}
	c.removeProcess(p)
}

// reportedExit waits for the keeper's report. If the keeper is gone, it reads the exit by
// the pidfd.
func (c *Container) reportedExit(p *Process) Exit {
	select {
	case <-p.reported:
	case <-c.readEnd:
		select {
		case <-p.reported:
		default:
			return readExit(p.pid, p.pidfd)
		}
	}
	return ExitOf(syscall.WaitStatus(p.status))
}

// diedOfMemory reports whether a process was killed because of the memory limit of its
// group or of the container. The meter closest to the process decides.
func (c *Container) diedOfMemory(p *Process, exit Exit, g *group) bool {
	c.mu.Lock()
	s, closing := c.sampler, c.closing
	c.mu.Unlock()
	if s != nil && s.killed(p.pid) {
		return true
	}
	byUs := closing
	if g != nil {
		byUs = byUs || g.ended(p.pid)
	}
	if exit.Signal != unix.SIGKILL || byUs {
		return false
	}
	if g != nil && g.meter != nil {
		return g.claims.claim(g.meter)
	}
	if c.cgroups != nil {
		if m := c.cgroups.meter(); m != nil {
			return c.claims.claim(m)
		}
	}
	return false
}

// oomClaims attributes each OOM kill that a meter has counted to one process at most: the
// meter does not know which process it was.
type oomClaims struct {
	mu    sync.Mutex
	given int
}

func (o *oomClaims) claim(m meter) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if m.ooms() <= o.given {
		return false
	}
	o.given++
	return true
}

// removeProcess removes a process for which nothing is left to do.
func (c *Container) removeProcess(p *Process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.living, p)
	if c.closing && len(c.living) == 0 {
		close(c.emptied)
	}
}
