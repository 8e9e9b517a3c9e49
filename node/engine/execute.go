package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/sandbox"
	"github.com/locusrun/locus/surfaces"
)

// oneShot runs the code in a new process, which is killed afterwards with everything that
// it started. With read-only code the process is a copy, which cannot change anything.
func (r *Run) oneShot() surfaces.Outcome {
	r.placed()
	if err := r.acquireSlot(); err != nil {
		return r.notStarted(err)
	}
	defer r.releaseSlot()
	if full := r.engine.cfg.Room(kernel.OneShot); full != nil {
		return r.notStarted(full)
	}
	readOnly := r.attempt.Call.StateMode == surfaces.ReadOnly
	k, err := r.newKernel(readOnly)
	if err != nil {
		return r.notStarted(err)
	}
	r.started()
	report, err := r.in(k, r.program(1, readOnly), func(ending) { k.Kill() })
	r.killOwn(k)
	if err != nil {
		return r.died(err, nil)
	}
	return r.completed(report)
}

// newKernel returns a kernel in which nothing has run. For read-only code it is a copy, as
// of a session, because only copies are prevented from changing anything.
func (r *Run) newKernel(readOnly bool) (kernel.Kernel, error) {
	if !readOnly {
		return r.engine.start(r.ctx, r.key(), kernel.OneShot, r)
	}
	k, err := r.engine.start(r.ctx, r.key(), kernel.Session, r)
	if err != nil {
		return nil, err
	}
	defer k.Kill()
	ctx, cancel := context.WithTimeout(r.ctx, forkLimit(r.attempt.Call.Language))
	defer cancel()
	c, notices, err := k.Fork(ctx, kernel.Copy, r.engine.nextName("copy"))
	switch {
	case r.ctx.Err() != nil && err != nil:
		return nil, context.Cause(r.ctx)
	case err != nil:
		return nil, fmt.Errorf("a read-only process could not be forked: %w", err)
	}
	r.notice(notices...)
	return c, nil
}

// stateful runs the code in its session, after the earlier calls.
func (r *Run) stateful() surfaces.Outcome {
	s, err := r.engine.claim(r.attempt.Call.Session.Key, r.attempt.Call.Session.Epoch)
	if err != nil {
		return r.notStarted(err)
	}
	defer s.release()
	turn, err := s.queue.join()
	if err != nil {
		return r.notStarted(err)
	}
	r.placed()
	if err := s.queue.await(r.ctx, turn); err != nil {
		return r.notStarted(err)
	}
	defer s.releaseTurn()
	if err := r.acquireSlot(); err != nil {
		return r.notStarted(err)
	}
	defer r.releaseSlot()
	if err := r.serving(); err != nil {
		return r.notStarted(err)
	}
	k, err := s.ready(r.ctx, r)
	if isClosed(err) {
		err = errSessionClosed // closed after the call was in the queue
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
	mark := sandbox.SinceBoot()
	report, err := r.in(k, r.program(number, false), func(why ending) { s.end(why.reason()) })
	s.alone = s.alone && report.Alone
	if err != nil {
		return r.died(err, s)
	}
	r.clear(s, k, mark)
	return r.confirmed(r.completed(report), s)
}

// confirmed returns an outcome only while this node may serve the session. A node without a
// lease must not answer: another node may own the session by then. It waits until the lease
// is back or the session is lost.
func (r *Run) confirmed(out surfaces.Outcome, s *session) surfaces.Outcome {
	// s.fenced is needed too: the node may have been fenced, and have a new lease, before
	// Serving is called.
	for !r.engine.cfg.Serving() || s.fenced() {
		if _, err := s.current(); err == nil {
			r.engine.pause(nil, nil)
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

// atomic runs the code while a copy of the session from before the call is kept as a
// checkpoint. The code runs in the session's own process, so that threads, sockets and jobs
// stay as they are if it succeeds. If the call fails, the checkpoint replaces the process.
func (r *Run) atomic(s *session, k kernel.Kernel) surfaces.Outcome {
	ctx, cancel := context.WithTimeout(r.ctx, forkLimit(r.attempt.Call.Language))
	checkpoint, notices, err := k.Fork(ctx, kernel.Session, r.engine.nextName("checkpoint"))
	cancel()
	if err != nil {
		return r.notStarted(r.engine.forkError(r.ctx, err))
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
	mark := sandbox.SinceBoot()
	report, err := r.in(k, r.program(number, false), func(ending) { k.Kill() })
	s.alone = s.alone && report.Alone
	var out surfaces.Outcome
	if err != nil {
		out = r.died(err, nil)
		// The session keeps its state, so there is no loss to report. The result says what
		// ended the call.
		out.Loss = nil
	} else {
		out = r.completed(report)
	}
	if out.Result.Error == nil { // it is set also if the code ended its process itself
		s.unguard(k)
		checkpoint.Kill() // wait for its end, or the next call could be blamed for it
		r.clear(s, k, mark)
		return r.confirmed(out, s)
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

// readOnly runs the code in a copy of the session, concurrently with the session's own
// calls.
func (r *Run) readOnly() surfaces.Outcome {
	r.placed()
	s, err := r.engine.claim(r.attempt.Call.Session.Key, r.attempt.Call.Session.Epoch)
	if err != nil {
		return r.notStarted(err)
	}
	defer s.release()
	if err := r.ensureStarted(s); err != nil {
		return r.notStarted(err)
	}
	if err := r.acquireSlot(); err != nil {
		return r.notStarted(err)
	}
	defer r.releaseSlot()
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
	r.killOwn(k)
	if err != nil {
		out := r.died(err, nil)
		// The session is unaffected: only the copy has ended.
		out.Loss = nil
		return out
	}
	return r.confirmed(r.completed(report), s)
}

// key returns the session key under which a stateless call starts its kernel.
func (r *Run) key() surfaces.SessionKey {
	c := &r.attempt.Call
	key := surfaces.SessionKey{Actor: r.attempt.Actor, Language: c.Language}
	if c.VenvID != nil {
		key.Venv = *c.VenvID
	}
	return key
}

// placed announces that the call has its place in the order of calls.
func (r *Run) placed() { r.emit(surfaces.Event{Kind: surfaces.EventPlaced}) }

// progress reports the progress of building the environment.
func (r *Run) progress(line string) {
	r.emit(surfaces.Event{Kind: surfaces.EventNotice, Name: surfaces.NoticeEnvironment, Text: line})
}

func (r *Run) started() {
	r.emit(surfaces.Event{Kind: surfaces.EventStarted, ID: r.attempt.CallID, Name: r.engine.cfg.Node})
}

// clear kills the processes that a call has started in its session and left running, if the
// call was interrupted or killed. A call that ends by itself may leave jobs on purpose.
func (r *Run) clear(s *session, k kernel.Kernel, mark time.Duration) {
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
		r.engine.log.Warn("processes that a call left running could not be killed", "call_id", r.attempt.CallID, "error", err)
	}
}
