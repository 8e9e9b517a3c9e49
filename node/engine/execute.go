package engine

import (
	"context"
	"fmt"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/surfaces"
)

// oneShot runs the code in a process of its own, which is gone afterwards with all that
// it started. Code that may only read can change nothing from there.
func (r *Run) oneShot() surfaces.Outcome {
	r.placed()
	if err := r.take(); err != nil {
		return r.notStarted(err)
	}
	defer r.give()
	if full := r.engine.cfg.Room(kernel.OneShot); full != nil {
		return r.notStarted(full)
	}
	readOnly := r.attempt.Call.StateMode == surfaces.ReadOnly
	r.clock.hold()
	k, err := r.fresh(readOnly)
	r.clock.release()
	if err != nil {
		return r.notStarted(err)
	}
	r.started()
	report, err := r.in(k, r.program(1, readOnly), func(ending) { k.Kill() })
	r.bury(k)
	if err != nil {
		return r.died(err, nil)
	}
	return r.reported(report)
}

// fresh gives a process in which nothing has run. One that may only read is a copy, as of
// a session, because only copies are kept from changing anything.
func (r *Run) fresh(readOnly bool) (kernel.Kernel, error) {
	if !readOnly {
		return r.engine.start(r.ctx, r.key(), kernel.OneShot, r.progress)
	}
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
		return r.notStarted(r.engine.unforked(r.ctx, err))
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
	k, notices, err := s.copy(r.ctx)
	if err != nil {
		return r.notStarted(err)
	}
	r.notice(notices...)
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
	r.emit(surfaces.Event{Kind: surfaces.EventNotice, Name: surfaces.NoticeEnvironment, Text: line})
}

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
