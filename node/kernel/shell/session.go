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
)

// session is a resident shell: a session, or a copy of one.
type session struct {
	common
	root    *root
	control *control

	// The next five belong to whoever has the turn.
	unread    []string // files of requests for copies that the shell may not have read
	output    *streams
	hazardous bool       // a program may have made the shell liable to end without a word
	traps     bool       // a program may have set traps
	retired   []*control // of processes that this one has taken the place of

	kill sync.Once
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

// Run implements kernel.Kernel.
func (s *session) Run(ctx context.Context, p kernel.Program) (kernel.Report, error) {
	if err := s.enter(ctx, p); err != nil {
		return kernel.Report{}, err
	}
	defer s.giveTurn()
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
	req, err := s.prepare(p, out)
	if err != nil {
		return kernel.Report{}, err
	}
	req.caller = caller.Name()
	s.begin(caller)
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

// prepare makes the request to run a program, with the files that it comes in.
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

// follows is told of each reply: which process goes on as the session, or that it goes on
// in a fresh one.
func (s *session) follows(ctx context.Context, said reply) error {
	switch said.kind {
	case saySignal:
		return nil
	case sayCarry:
		if err := s.carry(ctx); err != nil {
			return fmt.Errorf("go on in a fresh shell: %w", err)
		}
		return nil
	}
	return s.follow(said.pid)
}

// Kill implements kernel.Kernel. A caller's EXIT trap is run first when the
// session is idle, for at most farewellTime.
func (s *session) Kill() {
	s.kill.Do(func() {
		defer close(s.gone)
		s.bury()
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
