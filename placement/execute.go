package placement

import (
	"context"
	"fmt"
	"time"

	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

// maxRounds bounds how often a call is placed anew because the session changed under it.
// Each lost race means that another call got its session, so an actor that fills all its
// session slots at once needs as many rounds as it has slots.
const maxRounds = 4 * surfaces.MaxSessions

// registryGrace is how long registry operations may run past the call's deadline, so that
// even a call with a tiny timeout can be placed. A killed call has to be answered within
// 1.5 s of its deadline and the kill takes the first second, so this must stay below 0.5 s.
const registryGrace = 250 * time.Millisecond

// Execute runs a call to its end, on whichever node it belongs, and always returns a result.
// The deadline counts from the call's arrival: registry operations before an attempt are
// bounded by it plus registryGrace, and the code gets the time that placing left.
func (p *Placement) Execute(ctx context.Context, job Job) surfaces.Result {
	e := &execution{Placement: p, job: job, progress: progress{began: job.Arrived}}
	if e.began.IsZero() {
		e.began = time.Now()
	}
	placing, cancel := context.WithDeadline(ctx, e.began.Add(job.Call.Timeout+registryGrace))
	defer cancel()
	for e.rounds < maxRounds {
		if res := e.round(ctx, placing); res != nil {
			return *res
		}
	}
	return e.notPlaced(ctx, &surfaces.Refusal{
		Code: surfaces.CodeOwnerUnreachable, RetryAfterS: 0.1,
		Message: "the session changes hands faster than the call can reach it; nothing ran",
	})
}

// execution is the state of one Execute.
type execution struct {
	*Placement
	job Job
	progress
	rounds    int  // placements so far, rerouted ones not counted
	reroutes  int  // how often a node answered that it does not own the session
	refreshed bool // the view was refreshed once because of an unreported loss
}

// progress is what is known about the attempts of a call.
type progress struct {
	began    time.Time
	attempts int          // made so far, including the one in flight
	created  bool         // the session was created for this call
	lost     *lostAttempt // the first attempt, once it was lost and a retry is due
}

type lostAttempt struct {
	target  *target
	outcome surfaces.Outcome
}

// round places the call and makes one attempt. It returns the result, or nil when another
// round is needed. placing bounds the registry operations, ctx the attempt.
func (e *execution) round(ctx, placing context.Context) *surfaces.Result {
	e.rounds++
	to, refusal := e.locate(placing, &e.job)
	switch {
	case refusal != nil:
		return final(e.notPlaced(ctx, refusal))
	case to == nil:
		return nil
	}
	e.created = e.created || to.created
	if loss := to.unreadable(e.job.Call.StateMode); loss != nil {
		if !e.refreshed && e.refresh(placing) == nil {
			e.refreshed = true // another caller may have been told of the loss by now
			return nil
		}
		return final(e.sessionLost(loss))
	}
	if e.lost != nil && e.remaining() <= 0 {
		return final(e.notPlaced(ctx, nil)) // placing the retry used up the deadline
	}
	e.attempts++
	return e.next(ctx, placing, to, e.attempt(ctx, to, e.newAttempt()))
}

func final(res surfaces.Result) *surfaces.Result { return &res }

// remaining is the time left until the call's deadline.
func (e *execution) remaining() time.Duration { return e.job.Call.Timeout - time.Since(e.began) }

// newAttempt describes the attempt that is about to be made. It gets only the time that
// placing and an earlier attempt left.
func (e *execution) newAttempt() surfaces.Attempt {
	job := &e.job
	a := surfaces.Attempt{
		Call: job.Call, CallID: job.CallID, Actor: job.Call.Actor, Number: e.attempts, Sink: job.Sink, Host: job.Host,
		Remaining: max(e.remaining(), 1), // with no time left, the surface returns the timeout
	}
	if job.Early != nil {
		now := e.progress // a copy: Early runs on another goroutine while e goes on
		a.Early = func(out surfaces.Outcome) { job.Early(now.complete(out.Result)) }
	}
	return a
}

// next does what the retry table says about the outcome of an attempt. It returns the
// result, or nil when another round is needed.
func (e *execution) next(ctx, placing context.Context, to *target, out surfaces.Outcome) *surfaces.Result {
	call := &e.job.Call
	switch decide(classify(out), call.StateMode, call.OnLoss, e.attempts) {
	case reroute:
		e.attempts--
		e.rounds-- // the session has not changed; reroutes are bounded by the deadline instead
		e.reroutes++
		if refusal := e.awaitReroute(placing, to, e.reroutes, e.remaining()); refusal != nil {
			return final(e.notPlaced(ctx, refusal))
		}
		return nil
	case rebuild:
		e.attempts--
		e.declareLost(placing, to, out.Loss)
		return nil
	case retry:
		if e.remaining() <= 0 {
			break
		}
		e.lost = &lostAttempt{to, out}
		e.announceRetry(e.job.Sink, out.Loss)
		e.declareLost(placing, to, out.Loss)
		return nil
	}
	if out.Result.Status == surfaces.StatusRefused {
		if e.lost != nil {
			return final(e.notPlaced(ctx, nil))
		}
		e.attempts-- // nothing was started
	}
	return final(e.answer(ctx, to, out))
}

// notPlaced is the result of a call that cannot be placed. If this happens to the retry, the
// result is the loss of the first attempt instead: a refusal would say that nothing ran, and
// the first attempt may have run.
func (e *execution) notPlaced(ctx context.Context, refusal *surfaces.Refusal) surfaces.Result {
	if first := e.lost; first != nil {
		e.lost, e.attempts = nil, 1
		return e.answer(ctx, first.target, first.outcome)
	}
	return e.refused(refusal)
}

// answer turns the outcome of the last attempt into the call's result, and records in the
// registry what the outcome means for the session.
func (e *execution) answer(ctx context.Context, to *target, out surfaces.Outcome) surfaces.Result {
	ctx, cancel := context.WithTimeout(ctx, max(e.remaining(), registryGrace))
	defer cancel()
	res := out.Result
	if e.created && neverStarted(res) {
		e.discardSession(ctx, to)
		e.created = false
	}
	switch {
	case e.job.Call.Session == nil:
	case out.Loss != nil:
		e.declareLost(ctx, to, out.Loss)
	case res.StateLost.Loss == nil && res.Status != surfaces.StatusRefused && to.hasUnreportedLoss():
		res.StateLost = e.takeLossReport(ctx, to)
	}
	return e.complete(res)
}

// complete fills in the fields of a result that describe the attempts.
func (p progress) complete(res surfaces.Result) surfaces.Result {
	res.SessionCreated, res.Attempts = p.created, p.attempts
	res.DurationMS = surfaces.Milliseconds(time.Since(p.began))
	if res.StateLost.Loss == nil && p.lost != nil {
		// The registry has reported the session's loss to another call, but this call lost
		// its first attempt too and has to say so.
		res.StateLost = p.lost.outcome.Result.StateLost
	}
	return res
}

// refused is the result of a call that was refused before any attempt.
func (e *execution) refused(r *surfaces.Refusal) surfaces.Result {
	part := surfaces.Partial{
		CallID: e.job.CallID, Node: string(e.cfg.Node), Attempts: e.attempts, DurationMS: surfaces.Milliseconds(time.Since(e.began)),
	}
	if r.At == (surfaces.Coordinates{}) {
		part.At = e.job.Call.Coordinates()
	}
	return r.Result(part)
}

// sessionLost is the result of a read-only call on a session whose state is gone.
func (e *execution) sessionLost(loss *registry.Loss) surfaces.Result {
	e.attempts = 0
	res := e.refused(&surfaces.Refusal{
		Code:       surfaces.CodeSessionLost,
		Message:    fmt.Sprintf("the state of the session is gone (%s), so there is nothing to read", loss.Reason),
		Suggestion: `Set state_mode to "stateful" to build the session's state again, then read it.`,
	})
	res.StateLost = lossOf(*loss)
	return res
}
