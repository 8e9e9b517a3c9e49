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

// Config has the dependencies of a Placement. All fields are required.
type Config struct {
	Registry *registry.Registry
	// Node is this node.
	Node registry.NodeID
	// At returns the surface that runs calls on a node, in one incarnation of it.
	At func(node registry.NodeID, life registry.Incarnation) surfaces.Surface
	// Machines runs the calls for linked machines. It never reports a loss: an outcome
	// that cannot be known is a final outcome too, so these calls are never retried.
	Machines surfaces.Surface
	// Load returns the latest load of a node that is known here.
	Load func(node registry.NodeID) registry.Load
	// MaxRunning is how many calls may run on one node at a time; 0 is no limit.
	MaxRunning int
	Log        *slog.Logger
}

// Placement executes calls where they belong. It is safe for concurrent use.
type Placement struct{ cfg Config }

// New makes a Placement.
func New(cfg Config) *Placement { return &Placement{cfg} }

// Job is a call to be placed.
type Job struct {
	CallID string
	// Arrived is when the call came, from which its deadline counts; zero means now.
	Arrived time.Time
	// Call was resolved against a view that may have changed since.
	Call surfaces.Call
	// Resolve resolves the call again, against the current view.
	Resolve func() (surfaces.Call, *surfaces.Refusal)
	// Sink receives output and events, Host performs the primitives that the code uses. Both
	// are passed on to each attempt, and either may be nil.
	Sink surfaces.Sink
	Host surfaces.Host
	// Early receives a provisional result for a caller whose deadline has passed while the
	// attempt still runs. It may be called from any goroutine, and may be nil. The result
	// that Execute returns is the final one.
	Early func(surfaces.Result)
}

// neverStarted reports whether the session that was created for a call never came up: its
// environment could not be built, or its node had no room.
func neverStarted(res surfaces.Result) bool {
	return res.ErrorType != nil && *res.ErrorType == surfaces.TypeEnvironment ||
		res.Status == surfaces.StatusRefused && *res.Code == surfaces.CodeNoCapacity
}

// discardSession closes a session that was created for a call and never came up, so that
// it does not take one of the actor's session slots.
func (p *Placement) discardSession(ctx context.Context, to *target) {
	_, err := p.cfg.Registry.CloseSession(ctx, registry.CloseSession{Key: to.session.Key, Expected: to.session.Epoch})
	if err != nil {
		p.cfg.Log.Warn("a session that never started could not be closed", "language", to.session.Key.Language, "venv", to.session.Key.Venv, "error", err)
	}
}

// takeLossReport returns the earlier loss of a session if this call is the one that has to
// report it: each loss is reported once, and the registry picks the call.
func (p *Placement) takeLossReport(ctx context.Context, to *target) surfaces.StateLost {
	out, err := p.cfg.Registry.AckLoss(ctx, registry.AckLoss{Key: to.session.Key, Grant: to.session.Grant(), Lost: to.session.Loss.Epoch})
	if err != nil {
		// Reporting a loss twice is better than never.
		p.cfg.Log.Warn("a loss could not be recorded as reported", "error", err)
		return lossOf(to.session.Loss)
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

// declareLost records that the state of the target's session is gone, if it has a session.
func (p *Placement) declareLost(ctx context.Context, to *target, loss *surfaces.LostAttempt) {
	if to.session.Epoch != 0 && loss != nil {
		p.RecordLoss(ctx, to.session.Key, to.session.Grant(), loss.Reason)
	}
}

// RecordLoss records that a session lost the state that it had under a grant. If the session has
// another owner or epoch by now, this changes nothing. A failure is logged.
func (p *Placement) RecordLoss(ctx context.Context, key surfaces.SessionKey, grant registry.Grant, reason string) {
	_, err := p.cfg.Registry.MarkLost(ctx, registry.MarkLost{Key: key, Reason: registry.LossReason(reason), Grant: grant})
	if err != nil {
		p.cfg.Log.Error("a lost session could not be recorded", "language", key.Language, "session", key.ID, "epoch", grant.Epoch, "error", err)
	}
}

// announceRetry sends a notice that the call is retried, which marks the output so far as
// that of the lost attempt.
func (p *Placement) announceRetry(sink surfaces.Sink, loss *surfaces.LostAttempt) {
	if sink != nil {
		sink.Event(surfaces.Event{
			Kind: surfaces.EventNotice, Name: surfaces.NoticeRetry,
			Text: fmt.Sprintf("the first attempt was lost (%s); the call is tried once more", loss.Reason),
		})
	}
}

// unavailable turns a registry error into the refusal for the caller.
func (p *Placement) unavailable(err error) *surfaces.Refusal {
	p.cfg.Log.Warn("a call could not be placed", "error", err)
	code := surfaces.CodeNoQuorum
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		code = surfaces.CodeOwnerUnreachable
	}
	return &surfaces.Refusal{Code: code, RetryAfterS: 1, Message: registry.Reason(err) + "; nothing ran"}
}
