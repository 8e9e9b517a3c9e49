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

// target is where an attempt goes: the surface of a node or machine and, if the call has a
// session, the session's record.
type target struct {
	surface surfaces.Surface
	session registry.Session // the zero value for stateless calls
	created bool             // the session was created just now
}

// hasUnreportedLoss reports whether the session lost its state and no caller has been told.
func (t *target) hasUnreportedLoss() bool { return !t.session.Loss.IsZero() && !t.session.Loss.Told }

// unreadable returns the loss that keeps a read-only call from being served, or nil. This
// includes a session that has been rebuilt, until a caller was told of the loss: the reader
// expects the old state, and the new one may still be empty.
func (t *target) unreadable(mode surfaces.StateMode) *registry.Loss {
	if mode == surfaces.ReadOnly && (t.session.State == registry.SessionLost || t.hasUnreportedLoss()) {
		return &t.session.Loss
	}
	return nil
}

// findTarget returns the target of a call. It finds the call's session, claims it if it
// does not exist, and rebuilds it if its state is lost. A live session costs no registry
// command, whichever node owns it.
//
// It returns neither a target nor a refusal if the sessions or nodes changed meanwhile.
// job.Call has then been resolved again where necessary, and the caller has to try again.
func (p *Placement) findTarget(ctx context.Context, job *Job) (*target, *surfaces.Refusal) {
	ref := job.Call.Session
	switch {
	case job.Call.Linked != nil:
		return &target{surface: p.cfg.Machines}, nil
	case ref == nil:
		return p.stateless(job)
	}
	record, ok := p.cfg.Registry.View().Session(ref.Key)
	if ok && record.Name != ref.Name && ref.Name != "" {
		return nil, p.resolveAgain(job)
	}
	created := false
	switch {
	case !ok && ref.Exists:
		return nil, p.resolveAgain(job) // it was closed meanwhile
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
	found := *ref
	found.Exists, found.Epoch, found.Name = true, uint64(record.Epoch), record.Name
	job.Call.Session = &found
	return &target{surface: p.cfg.At(record.Owner, record.Incarnation), session: record, created: created}, nil
}

// stateless finds a node for a call without a session.
func (p *Placement) stateless(job *Job) (*target, *surfaces.Refusal) {
	view := p.cfg.Registry.View()
	self, known := view.Node(p.cfg.Node)
	venv := 0
	if job.Call.VenvID != nil {
		venv = *job.Call.VenvID
	}
	here := p.candidate(self)
	if known && venv == 0 && here.fits(Want{Language: job.Call.Language, Labels: labelsOf(view, job.Call.Actor)}) && here.hasRoom(Want{}) {
		return &target{surface: p.cfg.At(here.ID, here.Incarnation)}, nil // a shortcut: Choose would pick the same
	}
	node, unfit := p.choose(view, surfaces.SessionKey{Actor: job.Call.Actor, Language: job.Call.Language, Venv: venv}, false)
	if unfit == NoRoom {
		// Every node is busy: the call may as well queue on this one.
		node, unfit = Candidate{ID: p.cfg.Node, Incarnation: self.Incarnation}, 0
	}
	if unfit != 0 {
		return nil, noCapacity(unfit, job.Call.Language)
	}
	return &target{surface: p.cfg.At(node.ID, node.Incarnation)}, nil
}

// claim creates the session. It returns nil and no refusal if the caller has to try again.
func (p *Placement) claim(ctx context.Context, job *Job) (*registry.Session, *surfaces.Refusal) {
	ref := job.Call.Session
	owner, unfit := p.choose(p.cfg.Registry.View(), ref.Key, true)
	if unfit != 0 {
		return nil, noCapacity(unfit, ref.Key.Language)
	}
	out, err := p.cfg.Registry.ClaimSession(ctx, registry.ClaimSession{
		Key: ref.Key, Name: ref.Name, Owner: owner.ID, Incarnation: owner.Incarnation,
	})
	if err != nil {
		return nil, p.unavailable(err)
	}
	switch out.Result {
	case registry.Claimed:
		return &out.Session, nil
	case registry.ClaimNotCurrent:
		return nil, p.staleNode(ctx, owner.ID)
	case registry.ClaimDraining:
		return nil, p.refresh(ctx)
	}
	// Another call won the race, so what this call's session arguments mean may have changed.
	return nil, p.resolveAgain(job)
}

// rebuild makes a lost session live again, with empty state. It stays on its node, where
// its workspace is, if that node is up; otherwise it goes where a new session would go.
// Like claim it may return nil twice.
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
		Key: lost.Key, Expected: lost.Epoch, Owner: owner.ID, Incarnation: owner.Incarnation,
	})
	if err != nil {
		return nil, p.unavailable(err)
	}
	switch out.Result {
	case registry.Rebuilt:
		return &out.Session, nil
	case registry.RebuildNotCurrent:
		return nil, p.staleNode(ctx, owner.ID)
	}
	return nil, p.resolveAgain(job)
}

// staleNode handles a chosen node whose incarnation is not current, so that it may not own
// sessions. For another node the view is refreshed. This node refuses the call, because it
// has to register again first.
func (p *Placement) staleNode(ctx context.Context, node registry.NodeID) *surfaces.Refusal {
	if node == p.cfg.Node {
		return &surfaces.Refusal{
			Code: surfaces.CodeOwnerUnreachable, RetryAfterS: 1,
			Message: "this node is not registered with the mesh at the moment; nothing ran",
		}
	}
	return p.refresh(ctx)
}

// refresh waits until the local view contains everything that was committed before.
func (p *Placement) refresh(ctx context.Context) *surfaces.Refusal {
	if _, err := p.cfg.Registry.Fresh(ctx); err != nil {
		return p.unavailable(err)
	}
	return nil
}

const (
	rerouteDelay    = 10 * time.Millisecond
	maxRerouteDelay = 500 * time.Millisecond
)

// awaitReroute waits before a misrouted call is routed again, and refreshes the view. The
// first reroute is immediate. Later ones wait until the registry changes, or for an
// exponentially growing delay. remaining is the time until the call's deadline.
func (p *Placement) awaitReroute(ctx context.Context, to *target, reroutes int, remaining time.Duration) *surfaces.Refusal {
	if remaining <= 0 || ctx.Err() != nil {
		return &surfaces.Refusal{
			Code: surfaces.CodeOwnerUnreachable, RetryAfterS: 1,
			Message: "node " + string(to.session.Owner) + ", which owns the session, did not take the call within its deadline; nothing ran",
		}
	}
	if reroutes > 1 {
		delay := time.NewTimer(min(rerouteDelay<<min(reroutes, 10), maxRerouteDelay, remaining))
		select {
		case <-p.cfg.Registry.View().Changed():
		case <-delay.C:
		case <-ctx.Done():
		}
		delay.Stop()
	}
	return p.refresh(ctx)
}

// choose picks a node from the current view, for a session or for a stateless call.
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
		c.Sessions, c.MaxSessions, c.Holds = view.CountServed(n.ID), n.Capacity.MaxSessions, holds[n.ID]
		nodes = append(nodes, c)
	}
	want := Want{Language: key.Language, Labels: labelsOf(view, key.Actor), Session: session, Self: p.cfg.Node}
	return Choose(want, nodes, rand.IntN)
}

// labelsOf returns the labels that a node must have to run an actor's code.
func labelsOf(view registry.View, actor string) map[string]string {
	a, _ := view.Actor(actor)
	return a.Labels
}

func (p *Placement) candidate(n registry.Node) Candidate {
	load := p.cfg.Load(n.ID)
	return Candidate{
		ID: n.ID, Incarnation: n.Incarnation, Up: n.State == registry.NodeUp, Draining: n.Draining, Languages: n.Languages, Labels: n.Labels,
		Running: load.Running, MaxRunning: p.cfg.MaxRunning, NoSessions: load.NoSessions, NoCalls: load.NoCalls,
	}
}

// resolveAgain resolves the call against the current view.
func (p *Placement) resolveAgain(job *Job) *surfaces.Refusal {
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
