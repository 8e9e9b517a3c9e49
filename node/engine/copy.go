package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/surfaces"
)

// primed starts a session that has run nothing yet, in its turn, so that there is
// something to copy.
func (s *session) primed(ctx context.Context) error {
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

// primed is session.primed for a call, which also needs one of the places to run. It takes
// the turn first and the place second, as every call of a session does: in another order
// two calls could wait for each other.
func (r *Run) primed(s *session) error {
	k, err := s.current()
	if err != nil || k != nil {
		return err
	}
	r.clock.hold()
	err = s.wait(r.ctx)
	r.clock.release()
	if err != nil {
		return err
	}
	defer s.leave()
	if err := r.take(); err != nil {
		return err
	}
	defer r.give()
	if err := r.serving(); err != nil {
		return err
	}
	r.clock.hold()
	defer r.clock.release()
	_, err = s.ready(r.ctx, r.progress)
	return err
}

// copy forks the process of a primed session, for reading. A session that is reset at the
// same moment is copied as it is after the reset. The error is a *goneError where the
// session has ended, and a *surfaces.Refusal where its process does not answer.
func (s *session) copy(ctx context.Context) (kernel.Kernel, []surfaces.Notice, error) {
	for {
		k, err := s.current()
		if err != nil {
			return nil, nil, err
		}
		limited, cancel := context.WithTimeout(ctx, ForkLimit)
		c, notices, err := s.fork(limited, k, s.engine.nextName("copy"))
		cancel()
		if err == nil {
			return c, notices, nil
		}
		if ctx.Err() == nil { // a call whose time is up waits for nothing more
			s.ended(k)
		}
		if now, gone := s.current(); gone == nil && (now == k || ctx.Err() != nil) {
			return nil, nil, s.engine.unforked(ctx, err)
		}
		// Either the session is gone, which the next round says, or it was reset and has
		// another kernel to copy. Each further round takes a further reset.
	}
}

// fork makes a copy of the session's process. When a call has to be cleared away, every
// process younger than the call is killed, and so is a copy that is made at that moment:
// then it is made again. The clearing itself cancels the attempt, because not every kernel
// notices the end of a copy that has not said a word yet.
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

// nextSweep gives the channel that is closed when a call has next been cleared away. It
// waits for a clearing that is under way.
func (s *session) nextSweep() <-chan struct{} {
	s.clearing.Lock()
	defer s.clearing.Unlock()
	return s.swept
}

// endWithin is how long a process that has not answered is given to turn out to have ended.
const endWithin = time.Second

// ended marks the session gone if its kernel's process has ended. Whoever speaks with the
// process may find out before the goroutine that watches it does.
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

// unforked gives the error for a fork that failed: the reason why the call that it was for
// has ended, or a refusal where the process does not answer, because it is stopped or holds
// the interpreter.
func (e *Engine) unforked(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
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
