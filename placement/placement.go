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

// unbegun reports whether the session that was made for a call has not come into being:
// its environment cannot be built, or its node has no room.
func unbegun(res surfaces.Result) bool {
	return res.ErrorType != nil && *res.ErrorType == surfaces.TypeEnvironment ||
		res.Status == surfaces.StatusRefused && *res.Code == surfaces.CodeNoCapacity
}

// unmake closes a session that was made for a call and has not come into being, so that
// it does not take one of the actor's places.
func (p *Placement) unmake(ctx context.Context, at *place) {
	_, err := p.cfg.Registry.CloseSession(ctx, registry.CloseSession{Key: at.session.Key, Expected: at.session.Epoch})
	if err != nil {
		p.cfg.Log.Warn("a session that has not come into being could not be closed", "language", at.session.Key.Language, "venv", at.session.Key.Venv, "error", err)
	}
}

// tell gives the earlier loss of a session if this call is the one to be told of it: the
// registry chooses one.
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

// announce tells whoever follows the call that it is tried once more. What it printed
// until then is the lost attempt's.
func (p *Placement) announce(sink surfaces.Sink, loss *surfaces.LostAttempt) {
	if sink != nil {
		sink.Event(surfaces.Event{
			Kind: surfaces.EventNotice, Name: surfaces.NoticeRetry,
			Text: fmt.Sprintf("the first attempt was lost (%s); the call is tried once more", loss.Reason),
		})
	}
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
