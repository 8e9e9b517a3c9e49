package placement

import (
	"context"
	"fmt"
	"time"

	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

// maxSettles bounds how often a call is judged again because the sessions changed
// under it. Each time some other call has got its session, so an actor that fills
// all its places at once needs as many.
const maxSettles = 4 * surfaces.MaxSessions

// lastWords is how long the registry is waited for beyond a call's deadline, so that one of
// next to nothing leaves it time. A deadline that took a kill leaves half a second until the
// caller has an answer.
const lastWords = 250 * time.Millisecond

// Execute runs a call to its end, wherever it belongs. It always gives a result. What the
// registry is asked on the way is waited for until about the call's deadline; the code itself
// has its deadline from where it runs.
func (p *Placement) Execute(ctx context.Context, job Job) surfaces.Result {
	c := &course{Placement: p, job: job, standing: standing{began: time.Now()}}
	placing, placed := context.WithDeadline(ctx, c.began.Add(job.Call.Timeout+lastWords))
	defer placed()
	for c.settles < maxSettles {
		if res := c.step(ctx, placing); res != nil {
			return *res
		}
	}
	return c.nowhere(ctx, &surfaces.Refusal{
		Code: surfaces.CodeOwnerUnreachable, RetryAfterS: 0.1,
		Message: "the session changes hands faster than the call can reach it; nothing ran",
	})
}

// course is the way of one call to its result.
type course struct {
	*Placement
	job Job
	standing
	settles  int  // how often it was settled where the call goes, but for reroutes
	reroutes int  // how often the place has turned the call back
	fresh    bool // the view was refreshed because the session could not be read
}

// standing is how a call stands between its attempts.
type standing struct {
	began    time.Time
	attempts int     // that were made or are being made
	created  bool    // the call's session was made for it
	first    *failed // the attempt that was lost, when there is a second one
}

// failed is an attempt that was lost.
type failed struct {
	place *place
	out   surfaces.Outcome
}

// step settles where the call goes and has it tried there. It gives the result, or nil
// when the call has to be settled again. The context placing ends with the call's deadline.
func (c *course) step(ctx, placing context.Context) *surfaces.Result {
	c.settles++
	at, refusal := c.place(placing, &c.job)
	switch {
	case refusal != nil:
		return final(c.nowhere(ctx, refusal))
	case at == nil:
		return nil
	}
	c.created = c.created || at.created
	if loss := at.unreadable(c.job.Call.StateMode); loss != nil {
		if !c.fresh && c.refresh(placing) == nil {
			c.fresh = true // others may have been told of the loss since
			return nil
		}
		return final(c.sessionLost(loss))
	}
	if c.first != nil && c.left() <= 0 {
		return final(c.nowhere(ctx, nil)) // placing the retry took all the time that was left
	}
	c.attempts++
	return c.judge(ctx, placing, at, c.attempt(ctx, at, c.nextAttempt()))
}

func final(res surfaces.Result) *surfaces.Result { return &res }

// left is what the call's deadline leaves it.
func (c *course) left() time.Duration { return c.job.Call.Timeout - time.Since(c.began) }

// nextAttempt is the attempt that is made now.
func (c *course) nextAttempt() surfaces.Attempt {
	job := &c.job
	a := surfaces.Attempt{Call: job.Call, CallID: job.CallID, Actor: job.Call.Actor, Number: c.attempts, Sink: job.Sink, Host: job.Host}
	if c.first != nil {
		a.Call.Timeout = c.left()
	}
	if job.Early != nil {
		now := c.standing // it may be asked for when the call stands otherwise
		a.Early = func(out surfaces.Outcome) { job.Early(now.complete(out.Result)) }
	}
	return a
}

// judge looks up in the retry table what follows from an attempt. It gives the result, or
// nil when the call goes on.
func (c *course) judge(ctx, placing context.Context, at *place, out surfaces.Outcome) *surfaces.Result {
	call := &c.job.Call
	switch next(happened(out), call.StateMode, call.OnLoss, c.attempts) {
	case reroute:
		c.attempts--
		c.settles-- // nothing changed hands: the place has to catch up, or is on its way out
		c.reroutes++
		if refusal := c.look(placing, at, c.reroutes, c.left()); refusal != nil {
			return final(c.nowhere(ctx, refusal))
		}
		return nil
	case rebuild:
		c.attempts--
		c.declareLost(placing, at, out.Loss)
		return nil
	case retry:
		if c.left() <= 0 {
			break
		}
		c.first = &failed{at, out}
		c.announce(c.job.Sink, out.Loss)
		c.declareLost(placing, at, out.Loss)
		return nil
	}
	if out.Result.Status == surfaces.StatusRefused {
		if c.first != nil {
			return final(c.nowhere(ctx, nil))
		}
		c.attempts-- // nothing was started
	}
	return final(c.answer(ctx, at, out))
}

// nowhere is the result of a call that cannot be placed. When that befalls the retry, the
// result is the loss of the first attempt: it may have run, though the second surely has
// not, and there is no refusal of a call that may have run.
func (c *course) nowhere(ctx context.Context, refusal *surfaces.Refusal) surfaces.Result {
	if first := c.first; first != nil {
		c.first, c.attempts = nil, 1
		return c.answer(ctx, first.place, first.out)
	}
	return c.refused(refusal)
}

// answer makes the result of the call of the outcome of its last attempt.
func (c *course) answer(ctx context.Context, at *place, out surfaces.Outcome) surfaces.Result {
	ctx, done := context.WithTimeout(ctx, max(c.left(), lastWords))
	defer done()
	res := out.Result
	if c.created && unbegun(res) {
		c.unmake(ctx, at)
		c.created = false
	}
	switch {
	case c.job.Call.Session == nil:
	case out.Loss != nil:
		c.declareLost(ctx, at, out.Loss)
	case res.StateLost.Loss == nil && res.Status != surfaces.StatusRefused && at.untold():
		res.StateLost = c.tell(ctx, at)
	}
	return c.complete(res)
}

// complete adds to a result what is known of the attempts.
func (s standing) complete(res surfaces.Result) surfaces.Result {
	res.SessionCreated, res.Attempts = s.created, s.attempts
	res.DurationMS = surfaces.Milliseconds(time.Since(s.began))
	if res.StateLost.Loss == nil && s.first != nil {
		// Another call was told of the loss, and this one lost its attempt all the same.
		res.StateLost = s.first.out.Result.StateLost
	}
	return res
}

// refused is the result of a call that was not placed.
func (c *course) refused(r *surfaces.Refusal) surfaces.Result {
	part := surfaces.Partial{
		CallID: c.job.CallID, Node: string(c.cfg.Node), Attempts: c.attempts, DurationMS: surfaces.Milliseconds(time.Since(c.began)),
	}
	if r.At == (surfaces.Coordinates{}) {
		part.At = c.job.Call.Coordinates()
	}
	return r.Result(part)
}

// sessionLost is the result of a call that may only read a session whose state is gone.
func (c *course) sessionLost(loss *registry.Loss) surfaces.Result {
	c.attempts = 0
	res := c.refused(&surfaces.Refusal{
		Code:       surfaces.CodeSessionLost,
		Message:    fmt.Sprintf("the state of the session is gone (%s), and an empty one is not what the call wants to read", loss.Reason),
		Suggestion: `Set state_mode to "stateful" to build the session's state again, then read it.`,
	})
	res.StateLost = lossOf(*loss)
	return res
}
