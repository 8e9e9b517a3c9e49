package shell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// become makes the process of session n the process of s and consumes n. Processes that s
// has left running stay in its group. The caller holds both turns and must give back only
// that of s.
func (s *session) become(n *session) error {
	if err := s.group.Add(n.Process().Pid()); err != nil {
		return fmt.Errorf("group the shell: %w", err)
	}
	if err := n.group.Close(); err != nil {
		s.log.Warn("an empty group was not removed", "error", err)
	}
	s.family.forget(n)
	n.kill.Do(func() { close(n.gone) }) // makes Kill of n do nothing
	s.mu.Lock()
	old, oldControl, oldRoot, oldState := s.proc, s.control, s.root, s.state
	s.proc, s.control, s.line, s.root, s.state, s.cpu = n.proc, n.control, n.line, n.root, n.state, n.cpu
	s.mu.Unlock()
	oldRoot.work(s, false)
	s.root.work(s, true)
	if err := old.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	oldState.close()
	s.retired = append(s.retired, oldControl)
	s.unread = nil // retire removes them with oldControl's directory
	oldRoot.leave()
	return nil
}

// retire removes the directories of the session's earlier processes.
func (s *session) retire() {
	for _, c := range s.retired {
		c.ended()
		if err := c.close(); err != nil {
			s.log.Warn("a kernel's directory was not removed", "error", err)
		}
	}
	s.retired = nil
}

// carryLimit bounds continueInFresh.
const carryLimit = 20 * time.Second

// continueInFresh continues the session in a fresh shell, which loads the state that the old one has
// saved before it exits.
func (s *session) continueInFresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, carryLimit)
	defer cancel()
	k, err := s.family.fresh.take(ctx)
	if err != nil {
		return err
	}
	n, ok := k.(*session)
	if !ok {
		k.Kill()
		return fmt.Errorf("a fresh session is a %T", k)
	}
	if err := n.takeTurn(ctx); err != nil {
		n.Kill()
		return err
	}
	from := s.control.dir.path
	if err := s.become(n); err != nil {
		n.giveTurn()
		n.Kill()
		return err
	}
	return s.control.send(ctx, &request{op: opLoad, seq: s.seq, code: from})
}
