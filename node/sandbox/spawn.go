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

// Command says what to run in a container.
type Command struct {
	// Path is the program's file, absolute.
	Path string
	// Args is the argv, the program's own name included; empty means Path alone.
	Args []string
	// Env is the whole environment; see Environment.
	Env []string
	// Dir is the working directory, absolute; empty means the workspace.
	Dir string
	// Files become the descriptors 0 and up; the process has no others. Of 0 to 2,
	// those that are not given, or nil, are the null device. Spawn does not close
	// them. At most 128.
	Files []*os.File
	// Group takes the process in before it can do anything; nil means none. It must
	// come from the same container.
	Group Group
}

// SpawnError says that a command could not be started. It wraps the system's
// error, so that errors.Is with fs.ErrNotExist and the like works.
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

// Unwrap gives the system's error.
func (e *SpawnError) Unwrap() error { return e.Err }

// pendingSpawn is the spawn that is under way; there is at most one.
type pendingSpawn struct {
	id      uint64
	group   *group
	answer  chan spawnAnswer // takes one
	expired bool             // nobody waits any more
}

type spawnAnswer struct {
	process *Process
	report  startReport
	err     error
}

// Spawn starts a command. When the context ends first, the command is killed as
// soon as it has started.
func (c *Container) Spawn(ctx context.Context, cmd Command) (*Process, error) {
	order, fds, g, err := c.order(&cmd)
	if err != nil {
		return nil, err
	}
	if order.InGroup {
		birthplace := fds[len(fds)-1]
		defer unix.Close(birthplace)
	}
	select {
	case c.spawning <- struct{}{}: // given back by whoever takes the answer in
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-c.readEnd:
		return nil, errClosed
	}
	c.mu.Lock()
	if c.closing {
		c.mu.Unlock()
		<-c.spawning
		return nil, errClosed
	}
	c.lastID++
	p := &pendingSpawn{id: c.lastID, group: g, answer: make(chan spawnAnswer, 1)}
	c.pending = p
	c.mu.Unlock()
	if err := c.link.write(message{Kind: messageSpawn, ID: p.id, Spawn: order}, fds...); err != nil {
		c.mu.Lock()
		mine := c.pending == p
		if mine {
			c.pending = nil
		}
		c.mu.Unlock()
		if mine {
			<-c.spawning
		}
		return nil, &SpawnError{Path: cmd.Path, Err: err}
	}
	select {
	case a := <-p.answer:
		return c.answered(a, &cmd, g, order.InGroup)
	case <-ctx.Done():
		c.mu.Lock()
		p.expired = true
		c.mu.Unlock()
		select {
		case a := <-p.answer: // it came at the same moment
			if a.process != nil {
				_ = a.process.Signal(unix.SIGKILL)
			}
		default:
		}
		return nil, context.Cause(ctx)
	}
}

// answered finishes a spawn that was answered. toBeBorn says that the process was
// to be born in its group's directory; a tag is always born with.
func (c *Container) answered(a spawnAnswer, cmd *Command, g *group, toBeBorn bool) (*Process, error) {
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
	if g != nil {
		err := g.place(a.process.pid, toBeBorn && !a.report.InGroup)
		if err != nil && !gone(err) {
			_ = a.process.Signal(unix.SIGKILL)
			return nil, &SpawnError{Path: cmd.Path, Err: fmt.Errorf("putting it into group %s: %w", g.name, err)}
		}
	}
	return a.process, nil
}

// order checks a command and makes the keeper's order and its descriptors of it.
// If the process is to be born in its group, the last one is the group's
// directory, which the caller closes.
func (c *Container) order(cmd *Command) (*spawnOrder, []int, *group, error) {
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
		return nil, nil, nil, &SpawnError{Path: cmd.Path, Err: fmt.Errorf("%w: %w", fs.ErrInvalid, err)}
	}
	if len(cmd.Args) == 0 {
		cmd.Args = []string{cmd.Path}
	}
	if cmd.Dir == "" {
		cmd.Dir = c.cfg.Workspace
	}
	o := &spawnOrder{Path: []byte(cmd.Path), Args: bytesOf(cmd.Args), Env: bytesOf(cmd.Env), Dir: []byte(cmd.Dir), Files: len(cmd.Files)}
	fds := make([]int, 0, len(cmd.Files)+1)
	for _, f := range cmd.Files {
		if f == nil {
			f = c.devNull
		}
		fds = append(fds, int(f.Fd()))
	}
	if g == nil {
		return o, fds, nil, nil
	}
	birthplace, ok, err := g.birthplace()
	if err != nil {
		return nil, nil, nil, &SpawnError{Path: cmd.Path, Err: err}
	}
	if ok {
		o.InGroup = true
		fds = append(fds, birthplace)
	}
	o.Tag = g.tag
	return o, fds, g, nil
}

// listen takes in what the keeper says, until it is gone.
func (c *Container) listen() {
	defer close(c.readEnd)
	for {
		m, fds, err := c.link.read()
		if err != nil {
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
			c.log.Error("the keeper says what it should not", "kind", m.Kind)
		}
	}
}

// started takes the keeper's answer to a spawn. Until the acknowledgement the
// process stays in the process table, so its pid can be read even if it has ended.
func (c *Container) started(m message, fds []int) {
	var a spawnAnswer
	switch {
	case m.Start == nil || m.Start.Errno == 0 && len(fds) != 1:
		a.err = fmt.Errorf("a broken answer of the keeper: %w", fs.ErrInvalid)
		closeAll(fds)
	case m.Start.Errno != 0:
		a.report = *m.Start
		closeAll(fds)
	default:
		a.report = *m.Start
		a.process, a.err = c.follow(m.ID, fds[0])
		// When this fails the keeper is gone, and the reading ends next.
		_ = c.link.write(message{Kind: messageAck, ID: m.ID})
	}
	c.mu.Lock()
	p := c.pending
	if p == nil || p.id != m.ID {
		c.mu.Unlock()
		c.log.Error("the keeper answers what nobody asked", "id", m.ID)
		return
	}
	c.pending = nil
	p.answer <- a
	expired := p.expired
	c.mu.Unlock()
	if expired && a.process != nil {
		_ = a.process.Signal(unix.SIGKILL)
	}
	<-c.spawning
}

// fail ends all waiting for a keeper that is gone.
func (c *Container) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.pending; p != nil {
		c.pending = nil
		p.answer <- spawnAnswer{err: errors.Join(net.ErrClosed, err)}
		<-c.spawning
	}
}

func bytesOf(ss []string) [][]byte {
	bs := make([][]byte, len(ss))
	for i, s := range ss {
		bs[i] = []byte(s)
	}
	return bs
}
