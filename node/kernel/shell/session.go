package shell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/kernel/shell/command"
)

// session is a resident shell: a session, or a copy of one.
type session struct {
	common
	root    *root
	control *control

	// The next six belong to whoever has the turn.
	defined   definitions
	unread    []string // files of requests for copies that the shell may not have read
	output    *streams
	hazardous bool       // a program may have made the shell liable to end without a word
	traps     bool       // a program may have set traps
	retired   []*control // of processes that this one has taken the place of

	kill sync.Once
	gone chan struct{} // closed when Kill is through
}

var _ kernel.Kernel = (*session)(nil)

// adopt takes the process that said hello as the kernel's own and gives it a
// fresh watch.
func (s *session) adopt(pid int, pidfd *os.File) error {
	proc, err := s.family.cfg.Container.Adopt(pidfd, nil)
	if err != nil {
		return fmt.Errorf("watch the shell: %w", err)
	}
	stat, err := readStat(pid)
	if err != nil {
		stat = procStat{} // it ended already, which the watch will tell
	}
	s.mu.Lock()
	s.proc, s.cpu = proc, stat.cpu
	s.mu.Unlock()
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

// follow is called when a reply came from another process than before: the code
// left the shell, and a copy of it goes on.
func (s *session) follow(inner int) error {
	old := s.Process()
	if innerPid(old.Pid()) == inner {
		return nil
	}
	pid, pidfd, err := findInner(s.group, inner)
	if errors.Is(err, errNotFound) && innerPid(old.Pid()) != inner {
		// It answered and was killed at once, as by the death of $$. A process that
		// has gone on instead would be in the group.
		return errGone
	}
	if err != nil {
		return err
	}
	if err := s.adopt(pid, pidfd); err != nil {
		return err
	}
	// The old one only waits for the new one.
	if err := old.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// takeTurn waits for the turn; it fails with errGone when the shell has ended. Whether it
// has is seen only with the turn: who has it may be about to go on in another process.
func (s *session) takeTurn(ctx context.Context) error {
	select {
	case <-s.turn:
	case <-s.gone: // with the turn
		return errGone
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrBusy, context.Cause(ctx))
	}
	if s.control.gone.Load() || hasEnded(s.Process()) {
		s.giveTurn()
		return errGone
	}
	if err := kernel.EnsureFiles(s.Process().Pid()); err != nil {
		s.giveTurn()
		return err
	}
	return nil
}

// Run implements kernel.Kernel.
func (s *session) Run(ctx context.Context, p kernel.Program) (kernel.Report, error) {
	if strings.IndexByte(p.Code, 0) >= 0 {
		return kernel.Report{}, ErrNUL
	}
	if err := s.takeTurn(ctx); err != nil {
		if errors.Is(err, errGone) {
			return kernel.Report{}, s.died(false)
		}
		return kernel.Report{}, err
	}
	defer s.giveTurn()
	if p.Diff && s.stale {
		if err := s.refresh(ctx); err != nil {
			return kernel.Report{}, s.fail(false, err)
		}
	}
	standby := s.guard(ctx, p.Code)
	if standby != nil {
		// Once it has taken the session's place there is nothing left to kill.
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
	req := request{op: opRun, seq: s.seq, code: p.Code, diff: p.Diff, streams: out.number, caller: caller.Name()}
	req.checkInterrupt = s.traps
	s.traps = s.traps || setsTraps(p.Code)
	if setsExitTrap(p.Code) {
		req.trap, s.exitTrap = true, true
	}
	if p.Stdin != "" {
		req.stdin = true
		if err := out.file(fmt.Sprintf("i%d", s.seq), p.Stdin); err != nil {
			return kernel.Report{}, err
		}
	}
	if s.family.dialect.codeInFile {
		if err := out.file(fmt.Sprintf("c%d", s.seq), req.file()); err != nil {
			return kernel.Report{}, err
		}
		if s.defined.note(p.Code, s.seq) {
			if err := s.nameFunctions(); err != nil {
				return kernel.Report{}, err
			}
		}
	}
	s.begin(caller)
	defer s.end()
	if p.Started != nil {
		p.Started()
	}
	// The program has been handed over from here on: ctx has no more say.
	ctx = context.Background()
	if err := s.control.send(ctx, req.encode(s.family.dialect.codeInFile)); err != nil {
		return kernel.Report{}, s.fail(true, err)
	}
	said, err := s.await(ctx, sayDone)
	if err != nil {
		return s.recover(ctx, standby, s.fail(true, err))
	}
	if s.killedItself() {
		return kernel.Report{}, s.died(true)
	}
	return s.report(p, said, s.defined), nil
}

// openOutput gives the pair of pipes for a call: the last call's, if nobody else
// can write to it, else a new one.
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

// settleOutput ends the output of a call. The pipes are kept when the shell is the
// only process of the group, which has let go of them by then.
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

// begin marks that a program is about to run.
func (s *session) begin(caller *command.Caller) {
	s.mark(caller)
	s.root.work(s, true)
}

// killedItself reports whether the program that has just ended killed $$ with its
// last breath: the shell answers before the root is seen to die.
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
	s.mark(nil)
	s.mu.Lock()
	root := s.root
	s.mu.Unlock()
	root.work(s, false)
}

// await waits for the reply of a kind to the last request.
func (s *session) await(ctx context.Context, kind byte) (reply, error) {
	for {
		said, err := s.control.next(ctx)
		if err != nil {
			return reply{}, err
		}
		if said.kind == saySignal {
			continue
		}
		if said.kind == sayCarry {
			if err := s.carry(ctx); err != nil {
				return reply{}, fmt.Errorf("go on in a fresh shell: %w", err)
			}
			continue
		}
		if err := s.follow(said.pid); err != nil {
			return reply{}, err
		}
		if said.kind == kind && said.seq == s.seq {
			return said, nil
		}
	}
}

// fail turns the error of a conversation into the error of Run. What cannot be
// spoken with any more is killed: it must not go on unwatched.
func (s *session) fail(started bool, err error) error {
	if errors.Is(err, errGone) {
		return s.died(started)
	}
	s.log.Error("a shell was given up", "error", err)
	s.signal(syscall.SIGKILL)
	return fmt.Errorf("shell: %w", err)
}

// Kill implements kernel.Kernel. A caller's EXIT trap is run first when the
// session is idle, for at most farewellTime.
func (s *session) Kill() {
	s.kill.Do(func() {
		defer close(s.gone)
		s.farewell(func(ctx context.Context) error {
			req := request{op: opEnd, seq: s.seq}
			return s.control.send(ctx, req.encode(s.family.dialect.codeInFile))
		})
		if err := s.group.Close(); err != nil {
			s.log.Error("a shell's group was not killed", "error", err)
		}
		s.signal(syscall.SIGKILL)
		<-s.Process().Done()
		s.control.ended()
		// Whoever still talks gives the turn back now; then nobody uses the pipes.
		<-s.turn
		s.state.close()
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
