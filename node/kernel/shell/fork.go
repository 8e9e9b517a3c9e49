package shell

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/sandbox"
	"github.com/locusrun/locus/surfaces"
)

// makeSession starts a root shell, which forks the session.
func (f *Family) makeSession(ctx context.Context) (*session, error) {
	dir, name := f.place()
	c, err := f.dialect.newControl(dir, nil)
	if err != nil {
		return nil, err
	}
	s, err := f.newSession(kernel.Session, name, c)
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	rootDir, rootName := f.place()
	rc, err := f.dialect.newControl(rootDir, nil)
	if err != nil {
		return nil, errors.Join(err, s.discard())
	}
	if err := rc.dir.write("boot", f.dialect.bootScript(rc, c)); err != nil {
		return nil, errors.Join(err, s.discard(), rc.close())
	}
	proc, group, err := f.spawnRoot(ctx, rootName, rootDir)
	if err != nil {
		return nil, errors.Join(err, s.discard(), rc.close())
	}
	s.root = newRoot(proc, group, rc, f.log)
	s.root.join()
	err = func() error {
		// The end of the root ends the wait for its session.
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		go func() {
			select {
			case <-proc.Done():
				cancel(errGone)
			case <-ctx.Done():
			}
		}()
		_, err := s.hello(ctx, group, proc)
		return err
	}()
	if err = errors.Join(err, rc.dir.remove("boot")); err != nil {
		s.root.leave()
		return nil, errors.Join(fmt.Errorf("shell: start a session: %w", err), s.discard())
	}
	if err := f.keep(s); err != nil {
		return nil, err
	}
	// The state at the start must not appear in the first program's diff.
	if err := s.refresh(ctx); err != nil {
		s.Kill()
		return nil, fmt.Errorf("shell: start a session: %w", err)
	}
	return s, nil
}

// newSession makes the node's side of a session, without a process.
func (f *Family) newSession(kind kernel.Kind, name string, c *control) (*session, error) {
	group, err := f.cfg.Container.NewGroup(name, f.cfg.Limits)
	if err != nil {
		return nil, fmt.Errorf("shell: make a group: %w", err)
	}
	state, err := newStateFile(c.dir)
	if err != nil {
		return nil, errors.Join(err, group.Close())
	}
	s := &session{
		common: common{
			family: f, kind: kind, log: f.log, group: group, state: state,
			line: c, turn: make(chan struct{}, 1), gone: make(chan struct{}), stale: true,
		},
		control: c,
	}
	s.onReply = s.handleReply
	if f.dialect.codeInFile {
		s.defined = make(definitions)
	}
	s.turn <- struct{}{}
	return s, nil
}

// discard undoes newSession for a session that has no process.
func (s *session) discard() error {
	s.state.close()
	return errors.Join(s.group.Close(), s.control.close())
}

// hello waits for the hello of the new shell process, finds the process in the group in
// which it was forked, and moves it into its own group. The shell forked it through an
// intermediate process, for which the parent waits; hello kills that one, so that the
// parent continues.
func (s *session) hello(ctx context.Context, from sandbox.Group, parent *sandbox.Process) (reply, error) {
	said, _, err := s.control.next(ctx)
	if err != nil {
		return reply{}, err
	}
	if said.kind != replyHello {
		return reply{}, fmt.Errorf("the shell said %q before its hello", said.kind)
	}
	pid, pidfd, err := findInner(from, said.pid)
	if err != nil {
		return reply{}, err
	}
	inner, err := sandbox.ReadStat(pid)
	if err != nil {
		pidfd.Close()
		return reply{}, err
	}
	if err := s.group.Add(pid); err != nil {
		pidfd.Close()
		return reply{}, fmt.Errorf("group the shell: %w", err)
	}
	if err := s.adopt(pidfd); err != nil {
		return reply{}, err
	}
	return said, endMiddle(inner.Parent, parent)
}

// endMiddle kills the process through which a shell was forked.
func endMiddle(pid int, parent *sandbox.Process) error {
	if pid == parent.Pid() {
		return errors.New("the shell forked without a process between")
	}
	if stat, err := sandbox.ReadStat(pid); err != nil || stat.Parent != parent.Pid() {
		return fmt.Errorf("the process between two shells is not theirs: %w", err)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("hold the process between: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, syscall.SIGKILL, nil, 0); err != nil {
		return fmt.Errorf("end the process between: %w", err)
	}
	return nil
}

// Fork implements kernel.Kernel. A shell that runs a program can be copied only when the
// program has ended; if ctx ends first, the error wraps ErrBusy.
func (s *session) Fork(ctx context.Context, kind kernel.Kind, name string) (kernel.Kernel, []surfaces.Notice, error) {
	if err := s.takeTurn(ctx); err != nil {
		return nil, nil, s.fail(false, err)
	}
	defer s.giveTurn()
	notices := jobsOf(s.group, s.Process().Pid())
	child, err := s.fork(ctx, kind, name)
	if err != nil {
		return nil, nil, err
	}
	return child, append(notices, child.losses()...), nil
}

// fork makes the copy. The caller holds the turn.
func (s *session) fork(ctx context.Context, kind kernel.Kind, name string) (*session, error) {
	dir, _ := s.family.place()
	c, err := s.family.dialect.newControl(dir, s.control.token)
	if err != nil {
		return nil, err
	}
	child, err := s.family.newSession(kind, name, c)
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	child.called(name)
	child.known, child.unknown, child.stale, child.exitTrap, child.hazardous = s.known, s.unknown, s.stale, s.exitTrap, s.hazardous
	child.seq, child.traps = s.seq, s.traps
	child.defined = maps.Clone(s.defined)
	if err := child.nameFunctions(); err != nil {
		return nil, errors.Join(err, child.discard())
	}
	child.root = s.root
	s.root.join()
	if child.greeting, err = s.forkInto(ctx, child); err != nil {
		s.root.leave()
		return nil, errors.Join(err, child.discard())
	}
	if err := s.family.keep(child); err != nil {
		return nil, err
	}
	return child, nil
}

// forkGrace is how long a fork that has started may continue after its context has ended.
const forkGrace = time.Second

// forkInto makes the process of child, and returns its hello.
func (s *session) forkInto(ctx context.Context, child *session) (reply, error) {
	since := sandbox.SinceBoot()
	s.seq++
	req := &request{
		op: opFork, seq: s.seq, code: child.control.dir.path,
		copied: child.kind == kernel.Copy, preloaded: s.family.preload != "",
	}
	if s.family.dialect.codeInFile {
		name := fmt.Sprintf("c%d", s.seq)
		if err := s.control.dir.write(name, req.file()); err != nil {
			return reply{}, err
		}
		s.unread = append(s.unread, name)
	}
	// The shell is idle and reads the request at once. A context that ends at this moment
	// must not leave a partial request, for which the shell would have to be killed.
	if err := s.control.send(context.WithoutCancel(ctx), req); err != nil {
		return reply{}, s.fail(false, err)
	}
	// The end of this session ends the wait for its copy. The end of the caller's context
	// does so only after forkGrace: a fork is short, and a shell whose fork is abandoned
	// half way may not recover.
	call := ctx
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(call))
	defer cancel(nil)
	defer context.AfterFunc(call, func() {
		select {
		case <-time.After(forkGrace):
			cancel(context.Cause(call))
		case <-ctx.Done():
		}
	})()
	gone := s.control.goneC
	go func() {
		select {
		case <-gone:
			cancel(errGone)
		case <-ctx.Done():
		}
	}()
	said, err := child.hello(ctx, s.group, s.Process())
	if err == nil {
		s.forgetRead()
		return said, nil
	}
	s.abandon(since)
	if errors.Is(err, errGone) {
		return reply{}, s.died(false)
	}
	return reply{}, fmt.Errorf("copy the shell: %w", err)
}

// forgetRead removes the files of fork requests after the shell has answered the last one.
// Until then it may not have read the file of an abandoned request.
func (s *session) forgetRead() {
	for _, name := range s.unread {
		if err := s.control.dir.remove(name); err != nil {
			s.log.Warn("a request's file was not removed", "error", err)
		}
	}
	s.unread = nil
}

// abandon kills what an unfinished fork has left, so that the session, which waits for
// it, continues: the intermediate process, which is a child of the session and younger
// than the request, and the children of that process.
func (s *session) abandon(since time.Duration) {
	pids, err := s.group.Pids()
	if err != nil {
		s.log.Error("cannot kill an abandoned fork", "error", err)
		return
	}
	between := make(map[int]bool)
	for _, pid := range pids {
		if stat, err := sandbox.ReadStat(pid); err == nil && stat.Parent == s.Process().Pid() && stat.Start >= since {
			between[pid] = true
		}
	}
	for _, pid := range pids {
		stat, err := sandbox.ReadStat(pid)
		if err != nil || !between[pid] && !between[stat.Parent] {
			continue
		}
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			// The signal fails only if the process has ended.
			_ = unix.PidfdSendSignal(fd, syscall.SIGKILL, nil, 0)
			unix.Close(fd)
		}
	}
}

// losses returns notices about the isolation that a copy lacks.
func (s *session) losses() []surfaces.Notice {
	if s.kind == kernel.Copy && s.family.preload == "" {
		why := "that takes a C compiler, with which " + s.family.dialect.name + " gets a library that isolates copies"
		return []surfaces.Notice{diskNotIsolated(why), processesNotIsolated(why)}
	}
	return losses(s.kind, s.greeting)
}
