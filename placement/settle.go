package placement

import (
	"context"

	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

// place is where a call goes: nothing more than this node for a stateless one,
// a session's record for the others.
type place struct {
	session registry.Session
	created bool
}

// untold reports whether the session lost its state and nobody was told so far.
func (p *place) untold() bool { return !p.session.Loss.IsZero() && !p.session.Loss.Told }

// unreadable gives the loss for which a call that only reads cannot be served.
func (p *place) unreadable(mode surfaces.StateMode) *registry.Loss {
	if mode == surfaces.ReadOnly && p.session.State == registry.SessionLost {
		return &p.session.Loss
	}
	return nil
}

// settle finds the session that a call belongs to, or claims it, or rebuilds it
// when its state is lost. A session that this node has at hand costs no registry
// operation. It gives nil when the sessions changed meanwhile; job.Call is then
// judged anew and the caller settles again.
func (p *Placement) settle(ctx context.Context, job *Job) (*place, *surfaces.Refusal) {
	ref := job.Call.Session
	if ref == nil {
		return &place{}, nil
	}
	record, ok := p.cfg.Registry.View().Session(ref.Key)
	if ok && record.Name != ref.Name && ref.Name != "" {
		return nil, p.again(job)
	}
	created := false
	switch {
	case !ok:
		out, err := p.cfg.Registry.ClaimSession(ctx, registry.ClaimSession{
			Key: ref.Key, Name: ref.Name, Owner: p.cfg.Node, Incarnation: p.cfg.Incarnation,
		})
		if err != nil {
			return nil, unavailable(err)
		}
		switch out.Result {
		case registry.Claimed:
			record, created = out.Session, true
		case registry.ClaimNotCurrent:
			return nil, notCurrent()
		default:
			// Another call was faster: the law tells what that means for this one.
			return nil, p.again(job)
		}
	case record.State == registry.SessionLost && job.Call.StateMode == surfaces.Stateful:
		out, err := p.cfg.Registry.RebuildSession(ctx, registry.RebuildSession{
			Key: ref.Key, Expected: record.Epoch, Owner: p.cfg.Node, Incarnation: p.cfg.Incarnation,
		})
		if err != nil {
			return nil, unavailable(err)
		}
		switch out.Result {
		case registry.Rebuilt:
			record = out.Session
		case registry.RebuildNotCurrent:
			return nil, notCurrent()
		default:
			return nil, p.again(job)
		}
	}
	if record.Owner != p.cfg.Node || record.Incarnation != p.cfg.Incarnation {
		if record.State != registry.SessionLost {
			return nil, &surfaces.Refusal{
				Code: surfaces.CodeOwnerUnreachable, RetryAfterS: 1,
				Message: "the session is owned by node " + string(record.Owner) + ", which cannot be reached; nothing ran",
			}
		}
	}
	settled := *ref
	settled.Exists, settled.Epoch, settled.Name = true, uint64(record.Epoch), record.Name
	job.Call.Session = &settled
	return &place{session: record, created: created}, nil
}

// again judges the call against the present view.
func (p *Placement) again(job *Job) *surfaces.Refusal {
	call, refusal := job.Resolve()
	if refusal != nil {
		return refusal
	}
	job.Call = call
	return nil
}

func notCurrent() *surfaces.Refusal {
	return &surfaces.Refusal{
		Code: surfaces.CodeOwnerUnreachable, RetryAfterS: 1,
		Message: "this node is not registered with the mesh at the moment; nothing ran",
	}
}
