package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"
)

// Load is what a node reports of itself with each renewal of its lease. It is kept
// in memory only.
type Load struct {
	// Running counts the calls that run, Sessions the sessions that are held.
	Running     int   `json:"running"`
	Sessions    int   `json:"sessions"`
	MemoryBytes int64 `json:"memory_bytes"`
	// NoSessions and NoCalls say that the node is so short of memory that it begins no
	// session, and starts nothing at all.
	NoSessions bool `json:"no_sessions,omitempty"`
	NoCalls    bool `json:"no_calls,omitempty"`
	// Trust is the generation of Trust that the node acts by.
	Trust uint64 `json:"trust,omitempty"`
}

// maxLoads is for how many nodes a renewal tells the loads.
const maxLoads = 1024

// renewal is the body of an opRenew.
type renewal struct {
	ID      NodeID      `json:"id"`
	Life    Incarnation `json:"life"`
	Applied uint64      `json:"applied"`
	Load    Load        `json:"load"`
	// Stopped says that the life serves no more, by its own will.
	Stopped bool `json:"stopped,omitempty"`
}

// renewed is the answer to an opRenew.
type renewed struct {
	// Fenced says that the life is over, or was never known.
	Fenced bool `json:"fenced,omitempty"`
	// TTL is how long the lease lasts, from before the renewal was sent.
	TTL   time.Duration   `json:"ttl,omitempty"`
	Loads map[NodeID]Load `json:"loads,omitempty"`
}

// tenures is what a leader knows of the leases. It begins anew with every leader:
// none may act on what another saw.
type tenures struct {
	mu    sync.Mutex
	began time.Time
	// leaderless is how long nobody led before that; zero after the first look.
	leaderless time.Duration
	of         map[NodeID]tenure
	doubt      doubt
}

type tenure struct {
	life   Incarnation
	last   time.Time     // when the last renewal was granted
	before time.Duration // how long nobody led, if none was granted since
	// condemned: the expiry of this life was or will be proposed, so nothing may be
	// granted to it any more, even though it is not committed yet.
	condemned bool
	load      Load
}

// doubt is the state of the self-doubt rule.
type doubt struct {
	since   time.Time // zero while there is none
	missing []NodeID
}

var errCondemned = errors.New("registry: the expiry of the lease is under way")

func (t *tenures) restart(leaderless time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.began, t.leaderless, t.of, t.doubt = time.Now(), leaderless, map[NodeID]tenure{}, doubt{}
}

// stoodStill takes the time in which the leader itself may have stood still out of the
// silence of all nodes. What came meanwhile waits to be read, so the silence of that time
// proves nothing. That of before it does: who is gone is declared gone however often the
// leader stands still. What is barred stays barred.
func (t *tenures) stoodStill(gap time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	later := func(at time.Time) time.Time {
		if at = at.Add(gap); at.After(now) {
			return now
		}
		return at
	}
	t.began = later(t.began)
	for id, have := range t.of {
		have.last = later(have.last)
		t.of[id] = have
	}
	if !t.doubt.since.IsZero() {
		t.doubt.since = later(t.doubt.since)
	}
}

// grant notes a renewal, unless the life is condemned.
func (t *tenures) grant(q renewal) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	have := t.of[q.ID]
	if have.life == q.Life && have.condemned {
		return errCondemned
	}
	t.of[q.ID] = tenure{life: q.Life, last: time.Now(), load: q.Load}
	return nil
}

// condemn makes sure that no renewal is granted to a life from now on.
func (t *tenures) condemn(id NodeID, life Incarnation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bar(id, life)
}

func (t *tenures) bar(id NodeID, life Incarnation) {
	t.of[id] = tenure{life: life, last: t.of[id].last, before: t.of[id].before, condemned: true}
}

// loads gives the loads of the nodes that renewed lately.
func (t *tenures) loads(within time.Duration) map[NodeID]Load {
	t.mu.Lock()
	defer t.mu.Unlock()
	loads := map[NodeID]Load{}
	for id, have := range t.of {
		if len(loads) < maxLoads && !have.condemned && time.Since(have.last) < within {
			loads[id] = have.load
		}
	}
	return loads
}

// performRenew grants a node its lease, on the leader. The leadership is confirmed
// after the request came, so a leader that was replaced while it was paused grants
// nothing that a later one does not wait for.
func (r *Registry) performRenew(ctx context.Context, from NodeID, body []byte) answer {
	var q renewal
	if err := json.Unmarshal(body, &q); err != nil || q.ID != from || !isLife(q.ID, q.Life) {
		return refuse(refusedMalformed)
	}
	v, err := r.confirm(ctx)
	if err != nil {
		return r.failed(err)
	}
	r.health.heard(q.ID, q.Applied)
	n := v.tables().node(q.ID)
	if n == nil || n.Incarnation != q.Life || n.State == NodeExpired {
		return done(renewed{Fenced: true})
	}
	if q.Stopped {
		if _, err := r.MarkNode(ctx, MarkNode{ID: q.ID, Incarnation: q.Life, State: NodeExpired, Stopped: true}); err != nil {
			return later(err)
		}
		r.log.Info("a node has stopped", "node", q.ID, "incarnation", q.Life)
		return done(renewed{Fenced: true})
	}
	if err := r.tenures.grant(q); err != nil {
		return later(err)
	}
	if n.State == NodeUnreachable {
		if _, err := r.MarkNode(ctx, MarkNode{ID: q.ID, Incarnation: q.Life, State: NodeUp}); err != nil {
			return later(err)
		}
		r.log.Info("a node is back in time", "node", q.ID, "incarnation", q.Life)
	}
	return done(renewed{TTL: r.LeaseConfig().TTL, Loads: r.tenures.loads(2 * r.LeaseConfig().TTL)})
}

// MarkNode records what the leader concluded about a node's lease. It works on the
// leader alone; the leases' own judge is who calls it.
func (r *Registry) MarkNode(ctx context.Context, c MarkNode) (MarkNodeOutcome, error) {
	if !r.lead.is() {
		return MarkNodeOutcome{}, &NotLeaderError{Leader: r.otherLeader()}
	}
	if c.State == NodeExpired {
		r.tenures.condemn(c.ID, c.Incarnation)
	}
	c.Request = NewRequestID()
	data, err := encodeCommand(c, Proposal{Request: c.Request, At: At(time.Now())}, feature(r.View().tables()))
	if err != nil {
		return MarkNodeOutcome{}, err
	}
	got, a := r.applyHere(ctx, sending{command: data})
	switch a.status {
	case statusDone:
	case statusElsewhere:
		return MarkNodeOutcome{}, &NotLeaderError{Leader: r.otherLeader()}
	case statusLater:
		return MarkNodeOutcome{}, fmt.Errorf("%w: %w", ErrUnavailable, a.cause)
	default:
		return MarkNodeOutcome{}, &UnknownOutcomeError{Request: c.Request, Cause: a.cause}
	}
	if err := got.reply.verdict.refusal(); err != nil {
		return MarkNodeOutcome{}, err
	}
	return got.reply.outcome.(MarkNodeOutcome), nil
}

// Loads gives the loads of all nodes, as the leader told them last; the leader
// knows them itself. A node that does not renew drops out.
func (r *Registry) Loads() map[NodeID]Load {
	if r.lead.is() {
		return r.tenures.loads(2 * r.LeaseConfig().TTL)
	}
	told := r.loads.Load()
	if told == nil || time.Since(told.at) > 2*r.LeaseConfig().TTL {
		return nil
	}
	return maps.Clone(told.of)
}
