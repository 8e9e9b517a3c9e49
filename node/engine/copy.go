package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/surfaces"
)

// ensureStarted starts the kernel of a session that has not run anything yet, in its turn,
// so that it can be forked.
func (s *session) ensureStarted(ctx context.Context) error {
	k, err := s.current()
	if err != nil || k != nil {
		return err
	}
	if err := s.wait(ctx); err != nil {
		return err
	}
	defer s.leave()
	_, err = s.ready(ctx, nil)
	return err
}

// ensureStarted does the same for a call, which also needs a slot to run. It takes the turn
// first and the slot second, as all calls of a session do: the other order could deadlock.
func (r *Run) ensureStarted(s *session) error {
	k, err := s.current()
	if err != nil || k != nil {
		return err
	}
	if err := s.wait(r.ctx); err != nil {
		return err
	}
	defer s.leave()
	if err := r.acquireSlot(); err != nil {
		return err
	}
	defer r.releaseSlot()
	if err := r.serving(); err != nil {
		return err
	}
	_, err = s.ready(r.ctx, r)
	return err
}

// copy forks the process of a started session, for reading. If the session is reset at the
// same moment, the copy is of the state after the reset. The error is a *goneError if the
// session has ended, and a *surfaces.Refusal if its process does not answer.
func (s *session) copy(ctx context.Context) (kernel.Kernel, []surfaces.Notice, error) {
	for {
		k, err := s.current()
		if err != nil {
			return nil, nil, err
		}
		limited, cancel := context.WithTimeout(ctx, forkLimit(s.key.Language))
		c, notices, err := s.fork(limited, k, s.engine.nextName("copy"))
		cancel()
		if err == nil {
			return c, notices, nil
		}
		if ctx.Err() == nil { // a call whose time is up does not wait any longer
			s.ended(k)
		}
		if now, gone := s.current(); gone == nil && (now == k || ctx.Err() != nil) {
			return nil, nil, s.engine.forkError(ctx, err)
		}
		// Either the session is gone, which the next iteration finds, or it was reset and
		// has another kernel. Each further iteration needs a further reset.
	}
}

// fork makes a copy of the session's process. When an ended call is cleared, every process
// younger than the call is killed. That may include a copy being made at this moment, which
// is then made again. The clearing cancels the attempt, because not every kernel notices
// that a copy died before it said anything.
func (s *session) fork(ctx context.Context, k kernel.Kernel, name string) (kernel.Kernel, []surfaces.Notice, error) {
	for {
		swept := s.nextSweep()
		attempt, cancel := context.WithCancel(ctx)
		go func() {
			select {
			case <-swept:
				cancel()
			case <-attempt.Done():
			}
		}()
		c, notices, err := k.Fork(attempt, kernel.Copy, name)
		cancel()
		if err == nil || ctx.Err() != nil || s.nextSweep() == swept {
			return c, notices, err
		}
	}
}

// forkLimit bounds the fork of a kernel of a language.
func forkLimit(language surfaces.Language) time.Duration {
	if language == surfaces.Python {
		return kernel.CopyLimit
	}
	return ForkLimit
}

// nextSweep returns the channel that is closed when the next ended call has been cleared.
// If a clearing is in progress, it waits for it.
func (s *session) nextSweep() <-chan struct{} {
	s.clearing.Lock()
	defer s.clearing.Unlock()
	return s.swept
}

// endWithin bounds the wait for the end of a process that did not answer.
const endWithin = time.Second

// ended marks the session gone if its kernel's process has ended. A caller that talks to
// the process may find that out before the goroutine that watches it.
func (s *session) ended(k kernel.Kernel) {
	wait := time.NewTimer(endWithin)
	defer wait.Stop()
	p := k.Process()
	select {
	case <-p.Done():
	case <-wait.C:
		return
	}
	s.mu.Lock()
	over := s.kernel == k && k.Process() == p && !s.guarded
	s.mu.Unlock()
	if over {
		s.end(s.reasonOf(p.Exit()))
	}
}

// forkError returns the error for a failed fork: the cause if ctx has ended, or a refusal
// if the process does not answer, because it is stopped or holds the interpreter lock.
func (e *Engine) forkError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, kernel.ErrSlowCopy):
		return &surfaces.Refusal{
			Code: surfaces.CodeOwnerUnreachable, RetryAfterS: 5,
			Message:    fmt.Sprintf("the copy of the session has to be written out and read again in a fresh process, and was not ready within %.0f s; nothing ran", kernel.CopyLimit.Seconds()),
			Suggestion: "Try again when the node is less busy, delete large names from the session first, or read them in a stateful call.",
		}
	case errors.Is(err, context.DeadlineExceeded):
		e.log.Warn("a session could not be copied in time", "error", err)
		return &surfaces.Refusal{
			Code: surfaces.CodeOwnerUnreachable, RetryAfterS: 5,
			Message:    "the session's process does not answer: it is stopped, or in code that nothing can interrupt; nothing ran",
			Suggestion: "Wait, or end the session with close_session.",
		}
	}
	return fmt.Errorf("the session could not be copied: %w", err)
}
