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
	// Running counts the running calls, Sessions the sessions that the node holds.
	Running  int `json:"running"`
	Sessions int `json:"sessions"`
	// MemoryBytes is the resident memory of the node process itself.
	MemoryBytes int64 `json:"memory_bytes"`
	// NoSessions and NoCalls are set while the node is so short of memory that it starts
	// no new session, or nothing at all.
	NoSessions bool `json:"no_sessions,omitempty"`
	NoCalls    bool `json:"no_calls,omitempty"`
	// Trust is the generation of Trust that the node has applied.
	Trust uint64 `json:"trust,omitempty"`
}

// maxLoads bounds the loads in the answer to a renewal.
const maxLoads = 1024

// renewal is the body of an opRenew.
type renewal struct {
	ID          NodeID      `json:"id"`
	Incarnation Incarnation `json:"life"`
	// Applied is the index that the node has applied.
	Applied uint64 `json:"applied"`
	Load    Load   `json:"load"`
	// Stopped gives the lease up: the node has shut down.
	Stopped bool `json:"stopped,omitempty"`
}

// renewed is the answer to an opRenew.
type renewed struct {
	// Fenced says that this incarnation is expired, stopped, replaced or unknown.
	Fenced bool `json:"fenced,omitempty"`
	// TTL is how long the lease lasts, counted from before the renewal was sent.
	TTL time.Duration `json:"ttl,omitempty"`
	// Loads are the latest of all nodes.
	Loads map[NodeID]Load `json:"loads,omitempty"`
}

// leaseTable is what the leader knows about the leases. Every new leader starts with an
// empty one and never acts on what an earlier leader saw.
type leaseTable struct {
	mu    sync.Mutex
	began time.Time // when this node became leader
	// leaderless is how long there was no leader before that; zero once it was applied to
	// the nodes known at the time.
	leaderless time.Duration
	records    map[NodeID]leaseRecord
	hold       expiryHold
}

type leaseRecord struct {
	life       Incarnation
	last       time.Time     // when the last renewal was granted
	leaderless time.Duration // how long nobody led, if none was granted since
	// expiring says that the expiry of this incarnation has been decided, though perhaps not
	// committed yet. It is granted no renewal from then on.
	expiring bool
	load     Load
}

// expiryHold suspends expiry while too many nodes are missing at once; see
// LeaseConfig.decide.
type expiryHold struct {
	since   time.Time // zero while there is no hold
	missing []NodeID
}

var errExpiring = errors.New("registry: the expiry of the lease is under way")

func (t *leaseTable) restart(leaderless time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.began, t.leaderless, t.records, t.hold = time.Now(), leaderless, map[NodeID]leaseRecord{}, expiryHold{}
}

// discountPause does not count a pause of the leader itself as silence of the nodes: their
// renewals of that time are still waiting to be read. Silence before the pause still counts,
// so that a dead node expires even if the leader pauses again and again. Incarnations that
// are expiring stay so.
func (t *leaseTable) discountPause(gap time.Duration) {
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
	for id, have := range t.records {
		have.last = later(have.last)
		t.records[id] = have
	}
	if !t.hold.since.IsZero() {
		t.hold.since = later(t.hold.since)
	}
}

// grant records a renewal, unless the incarnation is expiring.
func (t *leaseTable) grant(q renewal) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	have := t.records[q.ID]
	if have.life == q.Incarnation && have.expiring {
		return errExpiring
	}
	t.records[q.ID] = leaseRecord{life: q.Incarnation, last: time.Now(), load: q.Load}
	return nil
}

// granted reports whether a lease of the incarnation was granted within the given time.
func (t *leaseTable) granted(q renewal, within time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	have := t.records[q.ID]
	return have.life == q.Incarnation && !have.expiring && time.Since(have.last) < within
}

// markExpiring makes sure that no renewal is granted to an incarnation from now on.
func (t *leaseTable) markExpiring(id NodeID, life Incarnation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.markExpiringLocked(id, life)
}

func (t *leaseTable) markExpiringLocked(id NodeID, life Incarnation) {
	t.records[id] = leaseRecord{life: life, last: t.records[id].last, leaderless: t.records[id].leaderless, expiring: true}
}

// loads returns the loads of the nodes that renewed within the given time.
func (t *leaseTable) loads(within time.Duration) map[NodeID]Load {
	t.mu.Lock()
	defer t.mu.Unlock()
	loads := map[NodeID]Load{}
	for id, have := range t.records {
		if len(loads) < maxLoads && !have.expiring && time.Since(have.last) < within {
			loads[id] = have.load
		}
	}
	return loads
}

// performRenew renews a node's lease, on the leader. Leadership is confirmed by a quorum
// after the request arrived, so a leader that was replaced while it was paused grants no
// lease that its successor does not know to wait for.
func (r *Registry) performRenew(ctx context.Context, from NodeID, body []byte) answer {
	var q renewal
	if err := json.Unmarshal(body, &q); err != nil || q.ID != from || !isLife(q.ID, q.Incarnation) {
		return refuse(refusedMalformed)
	}
	v, err := r.confirmRenewal(ctx, q)
	if err != nil {
		return r.failed(err)
	}
	r.health.heard(q.ID, q.Applied)
	n := v.tables().node(q.ID)
	if n == nil || n.Incarnation != q.Incarnation || n.State == NodeExpired {
		return done(renewed{Fenced: true})
	}
	if q.Stopped {
		if _, err := r.MarkNode(ctx, MarkNode{ID: q.ID, Incarnation: q.Incarnation, State: NodeExpired, Stopped: true}); err != nil {
			return retryLater(err)
		}
		r.log.Info("a node has stopped", "node", q.ID, "incarnation", q.Incarnation)
		return done(renewed{Fenced: true})
	}
	if err := r.leases.grant(q); err != nil {
		return retryLater(err)
	}
	if n.State == NodeUnreachable {
		if _, err := r.MarkNode(ctx, MarkNode{ID: q.ID, Incarnation: q.Incarnation, State: NodeUp}); err != nil {
			return retryLater(err)
		}
		r.log.Info("an unreachable node is back before it expired", "node", q.ID, "incarnation", q.Incarnation)
	}
	return done(renewed{TTL: r.LeaseConfig().TTL, Loads: r.leases.loads(2 * r.LeaseConfig().TTL)})
}

// confirmRenewal confirms the leadership after a renewal arrived. As long as the lease is
// held it can wait for the next heartbeats, whose answers confirm it. Otherwise the voters are
// asked.
func (r *Registry) confirmRenewal(ctx context.Context, q renewal) (View, error) {
	l := r.LeaseConfig()
	if !q.Stopped && r.leases.granted(q, l.TTL/2) {
		soon, cancel := context.WithTimeout(ctx, l.confirmWithin())
		v, err := r.confirmWith(func(term uint64) error { return r.awaitQuorum(soon, term) })
		cancel()
		if err == nil {
			return v, nil
		}
	}
	return r.confirm(ctx)
}

// MarkNode records what the leader concluded about a node's lease. On any other node it is
// a NotLeaderError.
func (r *Registry) MarkNode(ctx context.Context, c MarkNode) (MarkNodeOutcome, error) {
	if !r.lead.is() {
		return MarkNodeOutcome{}, &NotLeaderError{Leader: r.otherLeader()}
	}
	if c.State == NodeExpired {
		r.leases.markExpiring(c.ID, c.Incarnation)
	}
	c.Request = NewRequestID()
	data, err := encodeCommand(c, Proposal{Request: c.Request, At: At(time.Now())}, meshLevel(r.View().tables()))
	if err != nil {
		return MarkNodeOutcome{}, err
	}
	got, a := r.applyHere(ctx, commandRequest{command: data})
	switch a.status {
	case statusDone:
	case statusNotLeader:
		return MarkNodeOutcome{}, &NotLeaderError{Leader: r.otherLeader()}
	case statusRetry:
		return MarkNodeOutcome{}, fmt.Errorf("%w: %w", ErrUnavailable, a.cause)
	default:
		return MarkNodeOutcome{}, &UnknownOutcomeError{Request: c.Request, Cause: a.cause}
	}
	if err := got.reply.verdict.refusal(); err != nil {
		return MarkNodeOutcome{}, err
	}
	return got.reply.outcome.(MarkNodeOutcome), nil
}

// Loads returns the loads of all nodes that renew their leases, as last reported by the
// leader. It is nil when the last report is too old.
func (r *Registry) Loads() map[NodeID]Load {
	if r.lead.is() {
		return r.leases.loads(2 * r.LeaseConfig().TTL)
	}
	told := r.loads.Load()
	if told == nil || time.Since(told.at) > 2*r.LeaseConfig().TTL {
		return nil
	}
	return maps.Clone(told.of)
}
