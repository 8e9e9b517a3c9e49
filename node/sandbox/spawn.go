package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Command is a program to run in a container.
type Command struct {
	// Path is the absolute path of the program.
	Path string
	// Args is the command line, including the program's own name; empty means only Path.
	Args []string
	// Env is the whole environment; see Environment.
	Env []string
	// Dir is the absolute path of the working directory; empty means the workspace.
	Dir string
	// Files become the descriptors 0 and up, at most 128; the process has no others. A nil
	// file is the null device, and so are missing ones of 0 to 2. Spawn does not close
	// them.
	Files []*os.File
	// Group is the group to which the process belongs before its first instruction; nil
	// means none. It must be one of the same container.
	Group Group
}

// SpawnError is the error of a command that could not be started. It wraps the error of the
// operating system, so errors.Is works with fs.ErrNotExist, for example.
type SpawnError struct {
	// Path is the program, or the directory if Dir is set.
	Path string
	Dir  bool
	Err  error
}

// Error says what could not be started and why.
func (e *SpawnError) Error() string {
	if e.Dir {
		return fmt.Sprintf("sandbox: the directory %s cannot be entered: %v", e.Path, e.Err)
	}
	return fmt.Sprintf("sandbox: %s cannot be started: %v", e.Path, e.Err)
}

// Unwrap returns the error of the operating system.
func (e *SpawnError) Unwrap() error { return e.Err }

// pendingSpawn is the spawn in progress. There is at most one.
type pendingSpawn struct {
	id      uint64
	group   *group
	toMove  bool             // move it into the group if it was not created there
	answer  chan spawnAnswer // buffered, for one answer
	expired bool             // nobody waits for the answer any more
}

type spawnAnswer struct {
	process *Process
	report  startReport
	err     error
}

// Spawn starts a command. If the context ends first, the command is killed as soon as it has
// started.
func (c *Container) Spawn(ctx context.Context, cmd Command) (*Process, error) {
	g, err := c.check(&cmd)
	if err != nil {
		return nil, &SpawnError{Path: cmd.Path, Err: err}
	}
	p, err := c.beginSpawn(ctx, g)
	if err != nil {
		return nil, err
	}
	if err := c.sendOrder(p, &cmd); err != nil {
		c.mu.Lock()
		mine := c.pending == p
		if mine {
			c.pending = nil
		}
		c.mu.Unlock()
		if mine {
			c.endSpawn(p)
		}
		return nil, &SpawnError{Path: cmd.Path, Err: err}
	}
	select {
	case a := <-p.answer:
		return answered(a, &cmd)
	case <-ctx.Done():
		c.mu.Lock()
		p.expired = true
		c.mu.Unlock()
		select {
		case a := <-p.answer: // it arrived at the same moment
			if a.process != nil {
				_ = a.process.Signal(unix.SIGKILL)
			}
		default:
		}
		return nil, context.Cause(ctx)
	}
}

// answered converts the answer to a spawn to the results of Spawn.
func answered(a spawnAnswer, cmd *Command) (*Process, error) {
	if a.err != nil {
		return nil, &SpawnError{Path: cmd.Path, Err: a.err}
	}
	if a.report.Errno != 0 {
		e := &SpawnError{Path: cmd.Path, Dir: a.report.Dir, Err: a.report.Errno}
		if e.Dir {
			e.Path = cmd.Dir
		}
		return nil, e
	}
	return a.process, nil
}

// check validates a command, fills in its defaults and returns its group.
func (c *Container) check(cmd *Command) (*group, error) {
	g, isGroup := cmd.Group.(*group)
	var err error
	switch {
	case !filepath.IsAbs(cmd.Path):
		err = errors.New("the path is not absolute")
	case len(cmd.Files) > maxDescriptors:
		err = fmt.Errorf("%d descriptors, more than %d", len(cmd.Files), maxDescriptors)
	case cmd.Group != nil && (!isGroup || g.container != c):
		err = errors.New("the group is not of this container")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", fs.ErrInvalid, err)
	}
	if len(cmd.Args) == 0 {
		cmd.Args = []string{cmd.Path}
	}
	if cmd.Dir == "" {
		cmd.Dir = c.cfg.Workspace
	}
	return g, nil
}

// beginSpawn waits until no other spawn is in progress. endSpawn must follow.
func (c *Container) beginSpawn(ctx context.Context, g *group) (*pendingSpawn, error) {
	select {
	case c.spawning <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-c.readEnd:
		return nil, errClosed
	}
	if g != nil {
		g.births.RLock()
	}
	c.mu.Lock()
	c.lastID++
	p := &pendingSpawn{id: c.lastID, group: g, answer: make(chan spawnAnswer, 1)}
	closing := c.closing
	if !closing {
		c.pending = p
	}
	c.mu.Unlock()
	if closing {
		c.endSpawn(p)
		return nil, errClosed
	}
	return p, nil
}

// endSpawn lets the next spawn begin. It is called once, by the function that has removed p
// from pending.
func (c *Container) endSpawn(p *pendingSpawn) {
	if p.group != nil {
		p.group.births.RUnlock()
	}
	<-c.spawning
}

func (c *Container) sendOrder(p *pendingSpawn, cmd *Command) error {
	o := &spawnOrder{Path: []byte(cmd.Path), Args: bytesOf(cmd.Args), Env: bytesOf(cmd.Env), Dir: []byte(cmd.Dir), Files: len(cmd.Files)}
	fds := make([]int, 0, len(cmd.Files)+1)
	for _, f := range cmd.Files {
		if f == nil {
			f = c.devNull
		}
		fds = append(fds, int(f.Fd()))
	}
	if g := p.group; g != nil {
		birthplace, ok, err := g.birthplace()
		if err != nil {
			return err
		}
		if ok {
			defer unix.Close(birthplace)
			fds = append(fds, birthplace)
		}
		o.InGroup, o.Held, o.Tag = ok, true, g.tag
		c.mu.Lock()
		p.toMove = ok
		c.mu.Unlock()
	}
	return c.link.write(message{Kind: messageSpawn, ID: p.id, Spawn: o}, fds...)
}

// listen handles the keeper's messages until the keeper is gone.
func (c *Container) listen() {
	defer close(c.readEnd)
	for {
		m, fds, err := c.link.read()
		if err != nil {
			c.keeper.kill() // it has ended, or does not follow the protocol
			c.fail(err)
			return
		}
		switch m.Kind {
		case messageStarted:
			c.started(m, fds)
		case messageExit:
			closeAll(fds)
			c.exited(m)
		default:
			closeAll(fds)
			c.log.Error("an unexpected message from the keeper", "kind", m.Kind)
		}
	}
}

// started handles the keeper's answer to a spawn. Until the acknowledgement the process is
// not reaped, so its pid can be read even if it has ended; and if it has a group, it does
// not run yet.
func (c *Container) started(m message, fds []int) {
	c.mu.Lock()
	p := c.pending
	c.mu.Unlock()
	if p == nil || p.id != m.ID {
		closeAll(fds)
		c.log.Error("the keeper answers a spawn that is not pending", "id", m.ID)
		return
	}
	a := c.takeIn(p, m.Start, fds)
	c.mu.Lock()
	c.pending = nil
	p.answer <- a
	expired := p.expired
	c.mu.Unlock()
	if expired && a.process != nil {
		_ = a.process.Signal(unix.SIGKILL)
	}
	c.endSpawn(p)
}

// takeIn watches a process that has started and moves it into its group.
func (c *Container) takeIn(p *pendingSpawn, r *startReport, fds []int) spawnAnswer {
	if r == nil || r.Errno == 0 && len(fds) != 1 {
		closeAll(fds)
		return spawnAnswer{err: fmt.Errorf("a malformed answer from the keeper: %w", fs.ErrInvalid)}
	}
	if r.Errno != 0 {
		closeAll(fds)
		return spawnAnswer{report: *r}
	}
	a := spawnAnswer{report: *r}
	a.process, a.err = c.follow(p, fds[0])
	if a.err == nil && p.group != nil {
		if err := p.group.place(a.process.pid, p.toMove && !r.InGroup); err != nil && !gone(err) {
			_ = a.process.Signal(unix.SIGKILL)
			a = spawnAnswer{err: fmt.Errorf("moving it into group %s: %w", p.group.name, err)}
		}
	}
	// If this fails, the keeper is gone, and listen ends next.
	_ = c.link.write(message{Kind: messageAck, ID: p.id})
	return a
}

// fail ends the pending spawn when the keeper is gone.
func (c *Container) fail(err error) {
	c.mu.Lock()
	p := c.pending
	c.pending = nil
	c.mu.Unlock()
	if p != nil {
		p.answer <- spawnAnswer{err: errors.Join(net.ErrClosed, err)}
		c.endSpawn(p)
	}
}

func bytesOf(ss []string) [][]byte {
	bs := make([][]byte, len(ss))
	for i, s := range ss {
		bs[i] = []byte(s)
	}
	return bs
}
