package shell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/kernel/shell/command"
	"github.com/locusrun/locus/node/sandbox"
)

// session is a session, or a copy of one, in a shell without the loadable builtin. It
// serves requests over named pipes.
type session struct {
	common
	root    *root
	control *control
	// greeting is the hello of a fork.
	greeting reply

	// The turn protects the next five.
	unread    []string // files of fork requests that the shell may not have read
	output    *streams
	hazardous bool       // a program may have made the shell exit without its EXIT trap
	traps     bool       // a program may have set traps
	retired   []*control // of earlier processes, to be closed by retire

	kill sync.Once
}

var _ kernel.Kernel = (*session)(nil)

// adopt makes the process that has sent its hello the kernel's own, and ends the control
// pipes when the process ends.
func (s *session) adopt(pidfd *os.File) error {
	proc, err := s.family.cfg.Container.Adopt(pidfd, nil)
	if err != nil {
		return fmt.Errorf("watch the shell: %w", err)
	}
	s.setProcess(proc)
	go func() {
		<-proc.Done()
		s.mu.Lock()
		ours, control := s.proc == proc, s.control
		s.mu.Unlock()
		if ours {
			control.ended()
		}
	}()
	return nil
}

// follow switches to the process that has sent a reply, given its pid in its own pid
// namespace. It differs from the current one when code has left the shell: a copy of the
// shell then continues the session.
func (s *session) follow(inner int) error {
	old := s.Process()
	if innerPid(old.Pid()) == inner {
		return nil
	}
	_, pidfd, err := findInner(s.group, inner)
	if errors.Is(err, errNotFound) && innerPid(old.Pid()) != inner {
		// It answered and was killed at once, for example with $$. A process that
		// continues the session would be in the group.
		return errGone
	}
	if err != nil {
		return err
	}
	if err := s.adopt(pidfd); err != nil {
		return err
	}
	// The old process only waits for the new one.
	if err := old.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Run implements kernel.Kernel.
func (s *session) Run(ctx context.Context, p kernel.Program) (kernel.Report, error) {
	if err := s.enter(ctx, p); err != nil {
		return kernel.Report{}, err
	}
	defer s.giveTurn()
	standby := s.guard(ctx, p.Code)
	if standby != nil {
		// If the session has switched to it, Kill does nothing.
		defer standby.Kill()
	}
	s.seq++
	out, err := s.openOutput(p.Tap)
	if err != nil {
		return kernel.Report{}, err
	}
	defer s.retire()
	defer s.settleOutput(out)
	caller := s.family.admit(p.Events)
	defer caller.End()
	req, err := s.prepare(p, out)
	if err != nil {
		return kernel.Report{}, err
	}
	req.caller = caller.Name()
	s.begin(p.Number, caller)
	defer s.end()
	said, err := s.exchange(p, req)
	if err != nil {
		return s.recover(context.Background(), standby, err)
	}
	if s.killedItself() {
		return kernel.Report{}, s.died(true)
	}
	return s.report(p, said), nil
}

// prepare makes the request that runs a program, and the files that belong to it.
func (s *session) prepare(p kernel.Program, out *streams) (*request, error) {
	req := &request{
		op: opRun, seq: s.seq, code: p.Code, diff: p.Diff, streams: out.number,
		stdin: p.Stdin != "", trap: setsExitTrap(p.Code), checkInterrupt: s.traps,
	}
	s.exitTrap, s.traps = s.exitTrap || req.trap, s.traps || setsTraps(p.Code)
	if req.stdin {
		if err := out.file(fmt.Sprintf("i%d", s.seq), p.Stdin); err != nil {
			return nil, err
		}
	}
	if !s.family.dialect.codeInFile {
		return req, nil
	}
	if err := out.file(fmt.Sprintf("c%d", s.seq), req.file()); err != nil {
		return nil, err
	}
	if s.defined.note(p.Code, s.seq) {
		return req, s.nameFunctions()
	}
	return req, nil
}

// openOutput returns the pair of pipes for a call: that of the last call if no process can
// write to it any more, else a new one.
func (s *session) openOutput(tap kernel.Tap) (*streams, error) {
	if s.output == nil {
		out, err := openStreams(s.control.dir, s.seq)
		if err != nil {
			return nil, err
		}
		s.output = out
	}
	s.output.capture.Attach(tap)
	return s.output, nil
}

// settleOutput ends the output of a call. The pipes are kept for the next call if the
// shell, which has closed them, is the only process of the group.
func (s *session) settleOutput(out *streams) {
	err := out.settle()
	pids, perr := s.group.Pids()
	if err == nil && perr == nil && len(pids) == 1 && pids[0] == s.Process().Pid() && out.dir == s.control.dir && !s.control.gone.Load() {
		out.capture.Attach(nil)
		return
	}
	s.output = nil
	if err := errors.Join(err, out.release()); err != nil {
		s.log.Warn("a call's pipes were not removed", "error", err)
	}
}

// begin records that a program is about to run.
func (s *session) begin(program int, caller *command.Caller) {
	s.mark(program, caller)
	s.root.work(s, true)
}

// killedItself reports whether the program that has just ended has killed $$. The shell's
// reply can arrive before the end of the root is noticed.
func (s *session) killedItself() bool {
	s.mu.Lock()
	root := s.root
	s.mu.Unlock()
	if !root.dying() {
		return false
	}
	<-root.done
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.verdict != nil
}

func (s *session) end() {
	s.unmark()
	s.mu.Lock()
	root := s.root
	s.mu.Unlock()
	root.work(s, false)
}

// isolated reports whether the kernel is a copy that the preloaded library isolates. No
// other process can take the place of its own.
func (s *session) isolated() bool { return s.kind == kernel.Copy && s.family.preload != "" }

// handleReply handles each reply. It switches to the process that sent the reply, or, if the
// shell has saved its state and exits, to a fresh shell. An isolated copy ends then.
func (s *session) handleReply(ctx context.Context, said reply) error {
	switch {
	case said.kind == replySignal:
		return nil
	case said.kind != replyExiting:
		return s.follow(said.pid)
	case s.isolated():
		s.endWith(sandbox.Exit{Known: true, Code: said.status})
		return errGone
	}
	if err := s.continueInFresh(ctx); err != nil {
		return fmt.Errorf("continue in a fresh shell: %w", err)
	}
	return nil
}

// Kill implements kernel.Kernel. An idle session first runs the caller's EXIT trap, for at
// most exitTrapLimit.
func (s *session) Kill() {
	s.kill.Do(func() {
		defer close(s.gone)
		s.shutdown()
		if s.output != nil {
			if err := s.output.release(); err != nil {
				s.log.Warn("a kernel's pipes were not removed", "error", err)
			}
		}
		if err := s.control.close(); err != nil {
			s.log.Warn("a kernel's directory was not removed", "error", err)
		}
		s.root.leave()
		s.family.forget(s)
	})
	<-s.gone
}
