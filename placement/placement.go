package placement

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

// Config says what a placement needs. All fields are required.
type Config struct {
	Registry *registry.Registry
	// Node is the node that asks.
	Node registry.NodeID
	// At gives the surface that runs calls on a node, in one of its lives.
	At func(node registry.NodeID, life registry.Incarnation) surfaces.Surface
	// Machines runs the calls for linked machines. It never loses one: what it cannot
	// tell is an outcome too, so none is tried again.
	Machines surfaces.Surface
	// Load tells what a node has to do, as far as that is known here.
	Load func(node registry.NodeID) registry.Load
	// MaxRunning is how many calls run on one node at a time.
	MaxRunning int
	Log        *slog.Logger
}

// Placement leads calls to their places. Its methods may be called at the same
// time.
type Placement struct{ cfg Config }

// New makes a placement.
func New(cfg Config) *Placement { return &Placement{cfg} }

// Job is a call to be placed.
type Job struct {
	CallID string
	// Call was resolved against a view that may have changed since.
	Call surfaces.Call
	// Resolve judges the call again, against the present view.
	Resolve func() (surfaces.Call, *surfaces.Refusal)
	Sink    surfaces.Sink
	Host    surfaces.Host
	// Early takes a result for who cannot wait any longer, from any goroutine; the one
	// that Execute gives later is what became of the call. May be nil.
	Early func(surfaces.Result)
}

// maxSettles bounds how often a call is judged again because the sessions changed
// under it. Each time some other call has got its session, so an actor that fills
// all its places at once needs as many.
const maxSettles = 4 * surfaces.MaxSessions

// Execute runs a call to its end, wherever it belongs. It always gives a result.
func (p *Placement) Execute(ctx context.Context, job Job) surfaces.Result {
	began := time.Now()
	attempts, created := 0, false
	var first *failed // the attempt that was lost, while there is a second one
	// Where the retry comes to nothing, the loss is what there is to tell: the first
	// attempt may have run, whatever is sure of the second.
	nothing := func(r *surfaces.Refusal) surfaces.Result {
		if first != nil {
			return p.answer(ctx, job, first.place, first.out, answered{attempts: 1, created: created, began: began})
		}
		return p.refused(r, job, began, attempts)
	}
	reroutes, fresh := 0, false
	for settles := 0; settles < maxSettles; settles++ {
		place, refusal := p.place(ctx, &job)
		if refusal != nil {
			return nothing(refusal)
		}
		if place == nil {
			continue
		}
		created = created || place.created
		if lost := place.unreadable(job.Call.StateMode); lost != nil {
			if !fresh && p.refresh(ctx) == nil {
				fresh = true // others may have been told of it since
				continue
			}
			return p.sessionLost(job, lost, began)
		}
		attempts++
		attempt := surfaces.Attempt{Call: job.Call, CallID: job.CallID, Actor: job.Call.Actor, Number: attempts, Sink: job.Sink, Host: job.Host}
		if first != nil {
			if attempt.Call.Timeout -= time.Since(began); attempt.Call.Timeout <= 0 {
				return nothing(nil) // placing it took all the time that was left
			}
		}
		if job.Early != nil {
			a := answered{attempts: attempts, created: created, began: began, first: first}
			attempt.Early = func(out surfaces.Outcome) { job.Early(a.complete(out.Result)) }
		}
		out := p.attempt(ctx, place, attempt)
		switch next(happened(out), job.Call.StateMode, job.Call.OnLoss, attempts) {
		case reroute:
			attempts--
			settles-- // nothing changed hands: the place has to catch up, or is on its way out
			reroutes++
			if refusal := p.look(ctx, place, reroutes, job.Call.Timeout-time.Since(began)); refusal != nil {
				return nothing(refusal)
			}
			continue
		case rebuild:
			attempts--
			p.declareLost(ctx, place, out.Loss)
			continue
		case retry:
			if time.Since(began) >= job.Call.Timeout {
				break // there is no time left for it
			}
			first = &failed{place, out}
			p.announce(job.Sink, out.Loss)
			p.declareLost(ctx, place, out.Loss)
			continue
		}
		if out.Result.Status == surfaces.StatusRefused {
			if first != nil {
				return nothing(nil)
			}
			attempts-- // nothing was started
		}
		return p.answer(ctx, job, place, out, answered{attempts: attempts, created: created, began: began, first: first})
	}
	return nothing(&surfaces.Refusal{
		Code: surfaces.CodeOwnerUnreachable, RetryAfterS: 0.1,
		Message: "the session changes hands faster than the call can reach it; nothing ran",
	})
}

type failed struct {
	place *place
	out   surfaces.Outcome
}

type answered struct {
	attempts int
	created  bool
	began    time.Time
	first    *failed // nil when this is the only attempt
}

// answer completes the outcome of the last attempt.
func (p *Placement) answer(ctx context.Context, job Job, at *place, out surfaces.Outcome, a answered) surfaces.Result {
	res := out.Result
	if a.created && unbegun(res) {
		p.unmake(ctx, at)
		a.created = false
	}
	if job.Call.Session == nil {
		return a.complete(res)
	}
	if out.Loss != nil {
		p.declareLost(ctx, at, out.Loss)
		return a.complete(res)
	}
	if res.StateLost.Loss == nil && res.Status != surfaces.StatusRefused && at.untold() {
		res.StateLost = p.tell(ctx, at)
	}
	return a.complete(res)
}

// complete adds to a result what is known of the attempts.
func (a answered) complete(res surfaces.Result) surfaces.Result {
	res.SessionCreated, res.Attempts = a.created, a.attempts
	res.DurationMS = float64(time.Since(a.began).Microseconds()) / 1000
	if res.StateLost.Loss == nil && a.first != nil {
		// Another call was told of it, and this one lost its attempt all the same.
		res.StateLost = a.first.out.Result.StateLost
	}
	return res
}

// unbegun reports whether a call's new session has not come to be: its environment
// cannot be built, or its node has no room.
func unbegun(res surfaces.Result) bool {
	return res.ErrorType != nil && *res.ErrorType == surfaces.TypeEnvironment ||
		res.Status == surfaces.StatusRefused && *res.Code == surfaces.CodeNoCapacity
}

// unmake closes a session that was made for a call and has not come to be, so that it
// does not take one of the actor's places.
func (p *Placement) unmake(ctx context.Context, at *place) {
	_, err := p.cfg.Registry.CloseSession(ctx, registry.CloseSession{Key: at.session.Key, Expected: at.session.Epoch})
	if err != nil {
		p.cfg.Log.Warn("a session that has not come to be could not be closed", "language", at.session.Key.Language, "venv", at.session.Key.Venv, "error", err)
	}
}

// tell asks whether this call is the one to be told of an earlier loss.
func (p *Placement) tell(ctx context.Context, at *place) surfaces.StateLost {
	out, err := p.cfg.Registry.AckLoss(ctx, registry.AckLoss{Key: at.session.Key, Grant: at.session.Grant(), Lost: at.session.Loss.Epoch})
	if err != nil {
		// Better told twice than never.
		p.cfg.Log.Warn("a loss could not be recorded as told", "error", err)
		return lossOf(at.session.Loss)
	}
	if out.Result != registry.TellLoss {
		return surfaces.StateLost{}
	}
	return lossOf(out.Loss)
}

func lossOf(l registry.Loss) surfaces.StateLost {
	return surfaces.StateLost{Loss: &surfaces.Loss{
		Reason: string(l.Reason), At: l.At.Time().Format(time.RFC3339Nano), Epoch: uint64(l.Epoch),
	}}
}

// declareLost records that a session's state is gone. Only the owner's grant
// counts, so a report that comes late changes nothing.
func (p *Placement) declareLost(ctx context.Context, at *place, loss *surfaces.LostAttempt) {
	if at.session.Epoch != 0 && loss != nil {
		p.Lost(ctx, at.session.Key, at.session.Grant(), loss.Reason)
	}
}

// Lost records that a session lost its state under a grant.
func (p *Placement) Lost(ctx context.Context, key surfaces.SessionKey, grant registry.Grant, reason string) {
	_, err := p.cfg.Registry.MarkLost(ctx, registry.MarkLost{Key: key, Reason: registry.LossReason(reason), Grant: grant})
	if err != nil {
		p.cfg.Log.Error("a lost session could not be recorded", "language", key.Language, "session", key.ID, "epoch", grant.Epoch, "error", err)
	}
}

// announce tells who is listening that the attempt is being repeated; what it
// printed so far belongs to the attempt that was lost.
func (p *Placement) announce(sink surfaces.Sink, loss *surfaces.LostAttempt) {
	if sink != nil {
		sink.Event(surfaces.Event{
			Kind: surfaces.EventNotice, Name: surfaces.NoticeRetry,
			Text: fmt.Sprintf("the first attempt was lost (%s); the call is tried once more", loss.Reason),
		})
	}
}

func (p *Placement) refused(r *surfaces.Refusal, job Job, began time.Time, attempts int) surfaces.Result {
	part := surfaces.Partial{
		CallID: job.CallID, Node: string(p.cfg.Node), Attempts: attempts,
		DurationMS: float64(time.Since(began).Microseconds()) / 1000,
	}
	if r.At == (surfaces.Coordinates{}) {
		part.At = job.Call.Coordinates()
	}
	return r.Result(part)
}

// sessionLost is the answer to a call that may only read a session whose state is
// gone.
func (p *Placement) sessionLost(job Job, loss *registry.Loss, began time.Time) surfaces.Result {
	res := p.refused(&surfaces.Refusal{
		Code:       surfaces.CodeSessionLost,
		Message:    fmt.Sprintf("the state of the session is gone (%s), and an empty one is not what the call wants to read", loss.Reason),
		Suggestion: `Set state_mode to "stateful" to build the session's state again, then read it.`,
	}, job, began, 0)
	res.StateLost = lossOf(*loss)
	return res
}

// unavailable turns a failure of the registry into what the caller is told.
func (p *Placement) unavailable(err error) *surfaces.Refusal {
	p.cfg.Log.Warn("a call could not be placed", "error", err)
	code := surfaces.CodeNoQuorum
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		code = surfaces.CodeOwnerUnreachable
	}
	return &surfaces.Refusal{Code: code, RetryAfterS: 1, Message: registry.Reason(err) + "; nothing ran"}
}
