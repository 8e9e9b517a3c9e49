package placement

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

// place is where a call goes: a node's surface, and for the calls that have one
// the session's record.
type place struct {
	surface surfaces.Surface
	session registry.Session
	created bool
}

// untold reports whether the session lost its state and nobody was told so far.
func (p *place) untold() bool { return !p.session.Loss.IsZero() && !p.session.Loss.Told }

// unreadable gives the loss for which a call that only reads cannot be served: also of a
// session that is rebuilt by now, as long as nobody has been told. What the reader would
// see is not what it asks for, and may be nothing yet.
func (p *place) unreadable(mode surfaces.StateMode) *registry.Loss {
	if mode == surfaces.ReadOnly && (p.session.State == registry.SessionLost || p.untold()) {
		return &p.session.Loss
	}
	return nil
}

// settle finds where a call belongs. It finds the session that the call names, or
// claims it, or rebuilds it when its state is lost. A session that is known here
// costs no registry operation, wherever it lives. It gives nil when the sessions or
// the nodes changed meanwhile; job.Call is then judged anew and the caller settles
// again.
func (p *Placement) settle(ctx context.Context, job *Job) (*place, *surfaces.Refusal) {
	ref := job.Call.Session
	switch {
	case job.Call.Linked != nil:
		return &place{surface: p.cfg.Machines}, nil
	case ref == nil:
		return p.oneShot(job)
	}
	record, ok := p.cfg.Registry.View().Session(ref.Key)
	if ok && record.Name != ref.Name && ref.Name != "" {
		return nil, p.again(job)
	}
	created := false
	switch {
	case !ok && ref.Exists:
		return nil, p.again(job) // it was closed meanwhile
	case !ok:
		claimed, refusal := p.claim(ctx, job)
		if claimed == nil {
			return nil, refusal
		}
		record, created = *claimed, true
	case record.State == registry.SessionLost && job.Call.StateMode == surfaces.Stateful:
		rebuilt, refusal := p.rebuild(ctx, job, record)
		if rebuilt == nil {
			return nil, refusal
		}
		record = *rebuilt
	}
	settled := *ref
	settled.Exists, settled.Epoch, settled.Name = true, uint64(record.Epoch), record.Name
	job.Call.Session = &settled
	return &place{surface: p.cfg.At(record.Owner, record.Incarnation), session: record, created: created}, nil
}

// oneShot finds a node for a call without a session.
func (p *Placement) oneShot(job *Job) (*place, *surfaces.Refusal) {
	view := p.cfg.Registry.View()
	self, known := view.Node(p.cfg.Node)
	venv := 0
	if job.Call.VenvID != nil {
		venv = *job.Call.VenvID
	}
	here := p.candidate(self)
	if known && venv == 0 && here.fits(Want{Language: job.Call.Language, Labels: labelsOf(view, job.Call.Actor)}) && here.room(Want{}) {
		return &place{surface: p.cfg.At(here.ID, here.Life)}, nil // as Choose would have it
	}
	node, unfit := p.choose(view, surfaces.SessionKey{Actor: job.Call.Actor, Language: job.Call.Language, Venv: venv}, false)
	if unfit == NoRoom {
		// Every node is busy: the call waits its turn here as well as anywhere.
		node, unfit = Candidate{ID: p.cfg.Node, Life: self.Incarnation}, 0
	}
	if unfit != 0 {
		return nil, noCapacity(unfit, job.Call.Language)
	}
	return &place{surface: p.cfg.At(node.ID, node.Life)}, nil
}

// claim makes the session. Nil without a refusal means that the call is to be
// settled again.
func (p *Placement) claim(ctx context.Context, job *Job) (*registry.Session, *surfaces.Refusal) {
	ref := job.Call.Session
	owner, unfit := p.choose(p.cfg.Registry.View(), ref.Key, true)
	if unfit != 0 {
		return nil, noCapacity(unfit, ref.Key.Language)
	}
	out, err := p.cfg.Registry.ClaimSession(ctx, registry.ClaimSession{
		Key: ref.Key, Name: ref.Name, Owner: owner.ID, Incarnation: owner.Life,
	})
	if err != nil {
		return nil, p.unavailable(err)
	}
	switch out.Result {
	case registry.Claimed:
		return &out.Session, nil
	case registry.ClaimNotCurrent:
		return nil, p.outdated(ctx, owner.ID)
	case registry.ClaimDraining:
		return nil, p.refresh(ctx)
	}
	// Another call was faster: the law tells what that means for this one.
	return nil, p.again(job)
}

// rebuild makes a lost session live again, empty: where it was, if that node is
// there, or where a new one would go.
func (p *Placement) rebuild(ctx context.Context, job *Job, lost registry.Session) (*registry.Session, *surfaces.Refusal) {
	view := p.cfg.Registry.View()
	owner, unfit := p.choose(view, lost.Key, true)
	if n, ok := view.Node(lost.Owner); ok {
		if before := p.candidate(n); before.fits(Want{Language: lost.Key.Language, Labels: labelsOf(view, lost.Key.Actor)}) {
			owner, unfit = before, 0
		}
	}
	if unfit != 0 {
		return nil, noCapacity(unfit, lost.Key.Language)
	}
	out, err := p.cfg.Registry.RebuildSession(ctx, registry.RebuildSession{
		Key: lost.Key, Expected: lost.Epoch, Owner: owner.ID, Incarnation: owner.Life,
	})
	if err != nil {
		return nil, p.unavailable(err)
	}
	switch out.Result {
	case registry.Rebuilt:
		return &out.Session, nil
	case registry.RebuildNotCurrent:
		return nil, p.outdated(ctx, owner.ID)
	}
	return nil, p.again(job)
}

// outdated is what follows when a node was chosen that may own nothing (any more):
// this node's own lease is the caller's business, another node's is looked up anew.
func (p *Placement) outdated(ctx context.Context, node registry.NodeID) *surfaces.Refusal {
	if node == p.cfg.Node {
		return &surfaces.Refusal{
			Code: surfaces.CodeOwnerUnreachable, RetryAfterS: 1,
			Message: "this node is not registered with the mesh at the moment; nothing ran",
		}
	}
	return p.refresh(ctx)
}

// refresh makes sure that the next look sees what every node has been told.
func (p *Placement) refresh(ctx context.Context) *surfaces.Refusal {
	if _, err := p.cfg.Registry.Fresh(ctx); err != nil {
		return p.unavailable(err)
	}
	return nil
}

const (
	firstLook   = 10 * time.Millisecond
	longestLook = 500 * time.Millisecond
)

// look waits until it is worth routing a call again that was turned back: the first
// time not at all, then for a change in the registry, and longer each time. left is
// what the call's deadline allows.
func (p *Placement) look(ctx context.Context, at *place, times int, left time.Duration) *surfaces.Refusal {
	if left <= 0 || ctx.Err() != nil {
		return &surfaces.Refusal{
			Code: surfaces.CodeOwnerUnreachable, RetryAfterS: 1,
			Message: "node " + string(at.session.Owner) + ", which owns the session, did not take the call within its deadline; nothing ran",
		}
	}
	if times > 1 {
		pause := time.NewTimer(min(firstLook<<min(times, 10), longestLook, left))
		select {
		case <-p.cfg.Registry.View().Changed():
		case <-pause.C:
		case <-ctx.Done():
		}
		pause.Stop()
	}
	return p.refresh(ctx)
}

// choose picks a node from the present view.
func (p *Placement) choose(view registry.View, key surfaces.SessionKey, session bool) (Candidate, Unfit) {
	holds := map[registry.NodeID]int{}
	for _, s := range view.SessionsOf(key.Actor) {
		if s.State == registry.SessionLive {
			holds[s.Owner]++
		}
	}
	built := view.BuiltOn(key.Venv)
	var nodes []Candidate
	for _, n := range view.Nodes() {
		c := p.candidate(n)
		c.Built = slices.Contains(built, n.ID)
		c.Sessions, c.MaxSessions, c.Holds = view.Serving(n.ID), n.Capacity.MaxSessions, holds[n.ID]
		nodes = append(nodes, c)
	}
	want := Want{Language: key.Language, Labels: labelsOf(view, key.Actor), Session: session, Self: p.cfg.Node}
	return Choose(want, nodes, rand.IntN)
}

// labelsOf gives the labels that a node must have for an actor.
func labelsOf(view registry.View, actor string) map[string]string {
	a, _ := view.Actor(actor)
	return a.Labels
}

func (p *Placement) candidate(n registry.Node) Candidate {
	load := p.cfg.Load(n.ID)
	return Candidate{
		ID: n.ID, Life: n.Incarnation, Up: n.State == registry.NodeUp, Draining: n.Draining, Languages: n.Languages, Labels: n.Labels,
		Running: load.Running, MaxRunning: p.cfg.MaxRunning, NoSessions: load.NoSessions, NoCalls: load.NoCalls,
	}
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

func noCapacity(why Unfit, language surfaces.Language) *surfaces.Refusal {
	r := &surfaces.Refusal{
		Code: surfaces.CodeNoCapacity, RetryAfterS: 1,
		Message:    fmt.Sprintf("every node that runs %s has as many sessions as it may have, or no memory for more; nothing ran", language),
		Suggestion: "Close sessions that are not needed, or add a node.",
	}
	if why == NoNode {
		r.Message = fmt.Sprintf("no node that takes new work, and has the labels that the actor asks for, runs %s at the moment; nothing ran", language)
		r.Suggestion = "Wait for a node to come back, or add one that runs " + string(language) + "."
	}
	return r
}
