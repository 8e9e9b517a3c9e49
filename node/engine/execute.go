package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/surfaces"
)

// stateless runs the code in a fresh process, which is gone afterwards with all
// that it started.
func (r *Run) stateless() surfaces.Outcome {
	r.placed()
	if err := r.take(); err != nil {
		return r.notStarted(err)
	}
	defer r.give()
	if full := r.engine.cfg.Room(kernel.OneShot); full != nil {
		return r.notStarted(full)
	}
	r.clock.hold()
	k, err := r.engine.start(r.ctx, r.key(), kernel.OneShot, r.progress)
	r.clock.release()
	if err != nil {
		return r.notStarted(err)
	}
	r.started()
	report, err := r.in(k, r.program(1, false), func(ending) { k.Kill() })
	r.bury(k)
	if err != nil {
		return r.died(err, nil)
	}
	return r.reported(report)
}

// stateful runs the code in its session, after the calls that came before it.
func (r *Run) stateful() surfaces.Outcome {
	s, err := r.engine.claim(r.attempt.Call.Session.Key, r.attempt.Call.Session.Epoch)
	if err != nil {
		return r.notStarted(err)
	}
	defer s.release()
	turn, err := s.line.join()
	if err != nil {
		return r.notStarted(err)
	}
	r.placed()
	if err := s.line.await(r.ctx, turn); err != nil {
		return r.notStarted(err)
	}
	defer s.settle()
	if err := r.take(); err != nil {
		return r.notStarted(err)
	}
	defer r.give()
	if err := r.serving(); err != nil {
		return r.notStarted(err)
	}
	r.clock.hold()
	k, err := s.ready(r.ctx, r.progress)
	r.clock.release()
	if isClosed(err) {
		err = errSessionClosed // after the call had its place in it
	}
	if err != nil {
		return r.notStarted(err)
	}
	r.mu.Lock()
	r.session = s
	r.mu.Unlock()
	if keep := r.attempt.Call.Keep; keep != nil {
		s.keep(*keep)
	}
	if r.attempt.Call.Atomic {
		return r.atomic(s, k)
	}
	number := s.begin(r.attempt.CallID)
	defer s.idle()
	r.started()
	mark := now()
	report, err := r.in(k, r.program(number, false), func(why ending) { s.end(why.reason()) })
	s.alone = s.alone && report.Alone
	if err != nil {
		return r.died(err, s)
	}
	r.clear(s, k, mark)
	return r.vouched(r.reported(report), s)
}

// vouched gives an outcome only while this node may serve the session: what a node
// has computed that is cut off is no answer until it is known that nobody else
// owns the session by now.
func (r *Run) vouched(out surfaces.Outcome, s *session) surfaces.Outcome {
	// A node that was given up may have its next life before this is asked.
	for !r.engine.cfg.Serving() || s.fenced() {
		if _, err := s.current(); err == nil {
			r.engine.rest(nil, nil)
			continue
		}
		loss := s.loss().loss
		loss.Before, loss.MayHaveRun = false, true
		out = surfaces.Outcome{Result: r.base(), Loss: &loss}
		r.lost(&out.Result, loss)
		out.Result.Fail(surfaces.CodeOutcomeUnknown, "the code ran on a node that was cut off from the mesh and has lost the session meanwhile")
		return out
	}
	return out
}

// atomic runs the code while a copy of the session from before the call stands
// by. The session's own process runs the code, so that on success nothing has
// moved: threads, sockets and jobs are where they were. When the call fails the
// copy takes its place.
func (r *Run) atomic(s *session, k kernel.Kernel) surfaces.Outcome {
	ctx, cancel := context.WithTimeout(r.ctx, ForkLimit)
	checkpoint, notices, err := k.Fork(ctx, kernel.Session, r.engine.nextName("checkpoint"))
	cancel()
	if err != nil {
		return r.notStarted(unforked(r.ctx, err))
	}
	for _, n := range notices {
		if n.Kind == kernel.NoticeSerialised {
			checkpoint.Kill()
			return r.notStarted(&surfaces.Refusal{
				Code:       surfaces.CodeInvalidArgument,
				Message:    "atomic cannot be kept in this session, which could not be put back as it was: " + n.Text,
				Suggestion: "Drop atomic.", Fix: &surfaces.Fix{Drop: []string{"atomic"}, Set: map[string]any{}},
			})
		}
	}
	number := s.begin(r.attempt.CallID)
	defer s.idle()
	s.guard()
	r.started()
	mark := now()
	report, err := r.in(k, r.program(number, false), func(ending) { k.Kill() })
	s.alone = s.alone && report.Alone
	var out surfaces.Outcome
	if err != nil {
		out = r.died(err, nil)
		// The session has lost nothing, so nothing is to be rebuilt; what ended the
		// call is its verdict.
		out.Loss = nil
	} else {
		out = r.reported(report)
	}
	if out.Result.Error == nil { // which it has where the process ended, also by its own will
		s.unguard(k)
		checkpoint.Kill() // to its end, which the session's next call would else be taken to have brought about
		r.clear(s, k, mark)
		return r.vouched(out, s)
	}
	out.Result.StateDiff = &surfaces.StateDiff{Added: []string{}, Changed: []string{}, Removed: []string{}}
	if err := s.swap(checkpoint); err != nil {
		r.lost(&out.Result, s.loss().loss)
		r.closedUnder(&out.Result)
		return out
	}
	r.notice(notices...)
	r.notice(surfaces.Notice{Kind: "rolled_back", Text: "the call failed, so the session is as it was before it; files are as the code left them"})
	out.Result.Notice = r.notices
	return out
}

// readOnly runs the code in a copy of the session, beside whatever the session
// does.
func (r *Run) readOnly() surfaces.Outcome {
	if r.attempt.Call.Session == nil {
		return r.readOnlyOneShot()
	}
	r.placed()
	s, err := r.engine.claim(r.attempt.Call.Session.Key, r.attempt.Call.Session.Epoch)
	if err != nil {
		return r.notStarted(err)
	}
	defer s.release()
	if err := r.primed(s); err != nil {
		return r.notStarted(err)
	}
	if err := r.take(); err != nil {
		return r.notStarted(err)
	}
	defer r.give()
	if err := r.serving(); err != nil {
		return r.notStarted(err)
	}
	k, err := s.copy(r.ctx, r)
	if err != nil {
		return r.notStarted(err)
	}
	r.started()
	report, err := r.in(k, r.program(1, true), func(ending) { k.Kill() })
	r.bury(k)
	if err != nil {
		out := r.died(err, nil)
		// The session is unharmed and the copy's end was its own doing.
		out.Loss = nil
		return out
	}
	return r.vouched(r.reported(report), s)
}

// readOnlyOneShot runs the code as if in a copy of an empty session: in a process of
// its own, from which it can change nothing.
func (r *Run) readOnlyOneShot() surfaces.Outcome {
	r.placed()
	if err := r.take(); err != nil {
		return r.notStarted(err)
	}
	defer r.give()
	if full := r.engine.cfg.Room(kernel.OneShot); full != nil {
		return r.notStarted(full)
	}
	r.clock.hold()
	k, err := r.blank()
	r.clock.release()
	if err != nil {
		return r.notStarted(err)
	}
	r.started()
	report, err := r.in(k, r.program(1, true), func(ending) { k.Kill() })
	r.bury(k)
	if err != nil {
		return r.died(err, nil)
	}
	return r.reported(report)
}

// blank gives a copy of a session in which nothing has run, and which is gone.
func (r *Run) blank() (kernel.Kernel, error) {
	k, err := r.engine.start(r.ctx, r.key(), kernel.Session, r.progress)
	if err != nil {
		return nil, err
	}
	defer k.Kill()
	ctx, cancel := context.WithTimeout(r.ctx, ForkLimit)
	defer cancel()
	c, notices, err := k.Fork(ctx, kernel.Copy, r.engine.nextName("copy"))
	if err != nil {
		return nil, fmt.Errorf("a process that can only read could not be had: %w", err)
	}
	r.notice(notices...)
	return c, nil
}

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

// primed is session.primed for a call: it takes room, after the turn as every call of a
// session does, or two could wait for each other.
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

// copy forks the process of a session that was primed, for reading. One that is reset
// at the same moment is read as it is afterwards. The error is a *goneError where the
// session has ended, and a *surfaces.Refusal where its process does not answer.
func (s *session) copy(ctx context.Context, r *Run) (kernel.Kernel, error) {
	for {
		k, err := s.current()
		if err != nil {
			return nil, err
		}
		limited, cancel := context.WithTimeout(ctx, ForkLimit)
		c, notices, err := s.fork(limited, k, s.engine.nextName("copy"))
		cancel()
		if err == nil {
			r.notice(notices...)
			return c, nil
		}
		if ctx.Err() == nil { // a call whose time is up waits for nothing more
			s.ended(k)
		}
		if now, gone := s.current(); gone == nil && (now == k || ctx.Err() != nil) {
			return nil, unforked(ctx, err)
		}
		// It is gone, which is told next, or was reset: at most once for each reset.
	}
}

// fork makes a copy of the session's process. One that was killed as if it were something
// that a call has left running, since it was made at that moment, is made again: not every
// kernel hears of the end of a copy that has not said a word.
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

// nextSweep gives what is closed when a call has been cleared away once more. While one is
// being cleared away it waits for that.
func (s *session) nextSweep() <-chan struct{} {
	s.clearing.Lock()
	defer s.clearing.Unlock()
	return s.swept
}

// endWithin is how long a process takes to be seen to end that has not answered.
const endWithin = time.Second

// ended sees to it that the end of a kernel's process is known, if it has one: who speaks
// with the process may hear of it first.
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

// unforked gives what became of a fork that failed: the end of the call that it was for,
// or that the process does not answer, as one does not that is stopped or holds the
// interpreter.
func unforked(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, context.DeadlineExceeded):
		return &surfaces.Refusal{
			Code: surfaces.CodeOwnerUnreachable, RetryAfterS: 5,
			Message:    "the session's process does not answer: it is stopped, or in code that nothing can interrupt (" + err.Error() + "); nothing ran",
			Suggestion: "Wait, or end the session with close_session.",
		}
	}
	return fmt.Errorf("the session could not be copied: %w", err)
}

// key gives the place in which a stateless call runs.
func (r *Run) key() surfaces.SessionKey {
	c := &r.attempt.Call
	key := surfaces.SessionKey{Actor: r.attempt.Actor, Language: c.Language}
	if c.VenvID != nil {
		key.Venv = *c.VenvID
	}
	return key
}

// placed says that the call has its place: whatever comes later runs after it, as
// far as there is an order at all.
func (r *Run) placed() { r.emit(surfaces.Event{Kind: surfaces.EventPlaced}) }

// progress tells whoever follows the call how far what it waits for is.
func (r *Run) progress(line string) {
	r.emit(surfaces.Event{Kind: surfaces.EventNotice, Name: noticeEnvironment, Text: line})
}

// noticeEnvironment is the kind of notices about an environment that is being built.
const noticeEnvironment = "environment"

func (r *Run) started() {
	r.emit(surfaces.Event{Kind: surfaces.EventStarted, ID: r.attempt.CallID, Name: r.engine.cfg.Node})
}

// clear kills what a call that was made to end has started in its session and
// left running. Calls that end by themselves may leave jobs on purpose.
func (r *Run) clear(s *session, k kernel.Kernel, mark uint64) {
	why, _ := r.ends()
	if why == byItself {
		return
	}
	s.clearing.Lock()
	defer s.clearing.Unlock()
	defer func() {
		close(s.swept)
		s.swept = make(chan struct{})
	}()
	older, err := olderThan(k, mark)
	if err == nil {
		err = k.Group().KillExcept(append(older, s.jobs...))
	}
	if err != nil {
		r.engine.log.Warn("what a call left running could not be killed", "call_id", r.attempt.CallID, "error", err)
	}
}

// notStarted is the outcome of an attempt of which surely nothing has run.
func (r *Run) notStarted(err error) surfaces.Outcome {
	out := surfaces.Outcome{Result: r.base()}
	var gone *goneError
	var refusal *surfaces.Refusal
	var stale *staleError
	var start *StartError
	var died *kernel.Died
	switch {
	case errors.Is(err, errSessionClosed):
		out.Result.Fail(surfaces.CodeStopped, "the session was closed while the call waited for its turn; nothing ran")
		out.Result.Exit = &surfaces.Exit{Reason: surfaces.ReasonStopped}
	case isClosed(err):
		// Whoever sent the call here did not know that the session was closed.
		out.Misrouted = true
	case errors.As(err, &gone):
		r.lost(&out.Result, gone.loss)
		out.Result.Fail(surfaces.CodeSessionLost, "the session's state is gone: "+gone.loss.Reason)
		out.Loss = &gone.loss
	case errors.As(err, &refusal):
		out.Result = refusal.Result(r.engine.partial(&r.attempt, r.began))
	case errors.As(err, &stale):
		out.Misrouted = true
	case errors.As(err, &start):
		r.tap.Output(kernel.Stderr, []byte(start.Stderr))
		out.Result.Fail(start.Code, start.Message)
	case errors.Is(err, errNotServing):
		refusal = &surfaces.Refusal{Code: surfaces.CodeOwnerUnreachable, Message: err.Error() + "; nothing ran", RetryAfterS: 1}
		out.Result = refusal.Result(r.engine.partial(&r.attempt, r.began))
	case errors.Is(err, errExpired):
		out.Result.Fail(surfaces.CodeTimeout, fmt.Sprintf("the call had not started after %s; nothing ran", r.attempt.Call.Timeout))
		out.Result.Exit = &surfaces.Exit{Reason: surfaces.ReasonTimeout}
	case errors.Is(err, errStopped), errors.Is(err, context.Canceled):
		out.Result.Fail(surfaces.CodeStopped, "the call was stopped before it had started; nothing ran")
		out.Result.Exit = &surfaces.Exit{Reason: surfaces.ReasonStopped}
	case errors.Is(err, errClosing):
		out.Result.Fail(surfaces.CodeNoCapacity, "this node is shutting down; nothing ran")
	case errors.As(err, &died):
		fault(&out.Result, died.Exit, " before it had begun; nothing ran")
	case errors.Is(err, context.DeadlineExceeded):
		r.engine.log.Warn("a process for a call could not be had in time", "call_id", r.attempt.CallID, "error", err)
		refusal = &surfaces.Refusal{Code: surfaces.CodeNoCapacity, Message: "no process for the code could be had in time; nothing ran", RetryAfterS: 5}
		out.Result = refusal.Result(r.engine.partial(&r.attempt, r.began))
	default:
		id := r.attempt.CallID
		r.engine.log.Error("a kernel could not be had", "call_id", id, "error", err)
		out.Result = surfaces.Internal(id).Result(r.engine.partial(&r.attempt, r.began))
	}
	return out
}
