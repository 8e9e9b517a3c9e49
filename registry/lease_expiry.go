package registry

import (
	"context"
	"math"
	"slices"
	"time"
)

// silence says for how long a node whose incarnation has not expired has not renewed its
// lease.
type silence struct {
	id     NodeID
	life   Incarnation
	state  NodeState
	silent time.Duration // the time since the last renewal, at the leader
	// leaderless is how long there was no leader before the silence began. It does not
	// count towards the end of the lease, which no leader could have renewed, but it does
	// count towards the grace.
	leaderless time.Duration
}

// graceIn is the time until the grace of the node ends, if it stays silent.
func (s silence) graceIn(l LeaseConfig) time.Duration {
	return max(l.silenceLimit()-s.silent, l.silenceLimit()+l.Grace-s.silent-s.leaderless)
}

// decide returns the node states to record now (due), the nodes whose lease has run out
// (missing), and the time until the next decision may be due. It is a pure function.
//
// If at least two nodes, and at least half of all, fall silent within one TTL of each
// other, a fault on the leader's side is more likely than so many failures at once. Then
// hold is true, and no node is expired until the hold has lasted HoldFor; held is how long
// it has lasted.
func (l LeaseConfig) decide(all []silence, held time.Duration) (due []MarkNode, missing []NodeID, hold bool, again time.Duration) {
	again = l.checkEvery()
	var silent []silence
	latest := time.Duration(math.MaxInt64) // the silence that began last, the shortest
	for _, s := range all {
		if s.silent < l.silenceLimit() {
			again = min(again, l.silenceLimit()-s.silent)
			continue
		}
		silent = append(silent, s)
		latest = min(latest, s.silent)
		missing = append(missing, s.id)
		if left := s.graceIn(l); left > 0 {
			again = min(again, left)
		}
	}
	together := 0
	for _, s := range silent {
		if s.silent-latest <= l.TTL {
			together++
		}
	}
	hold = together >= 2 && 2*together >= len(all)
	for _, s := range silent {
		switch {
		case s.state == NodeUp:
			due = append(due, MarkNode{ID: s.id, Incarnation: s.life, State: NodeUnreachable})
		case s.graceIn(l) <= 0 && (!hold || held >= l.HoldFor):
			due = append(due, MarkNode{ID: s.id, Incarnation: s.life, State: NodeExpired})
		}
	}
	if len(due) > 0 {
		again = 0 // a node that becomes unreachable now may have no grace left
	}
	return due, missing, hold, again
}

// watchLeases records the state of nodes that do not renew their lease, until ctx ends.
func (r *Registry) watchLeases(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	before := time.Now()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		now := time.Now()
		if gap := now.Sub(before); gap > r.LeaseConfig().TTL/2 {
			r.log.Warn("the leader was paused; this time is not counted against any lease", "for", gap)
			r.leases.discountPause(gap)
		}
		due, again := r.leases.due(r.View().tables().nodes(), r.LeaseConfig(), r.log.Warn)
		for _, c := range due {
			out, err := r.MarkNode(ctx, c)
			if err != nil {
				r.log.Warn("a node's state could not be recorded", "node", c.ID, "state", c.State, "error", err)
				again = r.LeaseConfig().checkEvery()
				continue
			}
			r.log.Warn("a node's lease was missed", "node", c.ID, "incarnation", c.Incarnation, "state", c.State,
				"result", out.Result, "sessions", out.Sessions)
		}
		before = now
		timer.Reset(again)
	}
}

// due returns the node states to record now and the time after which to ask again. It also
// starts and ends the expiry hold.
func (t *leaseTable) due(nodes []*Node, l LeaseConfig, warn func(string, ...any)) (due []MarkNode, again time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []silence
	for _, n := range nodes {
		if n.State == NodeExpired {
			continue
		}
		have := t.records[n.ID]
		if have.life < n.Incarnation {
			// This leader sees the incarnation for the first time, and the node may not
			// have asked for its first lease yet: its time starts now.
			have = leaseRecord{life: n.Incarnation, last: time.Now(), leaderless: t.leaderless}
			t.records[n.ID] = have
		}
		last := t.began
		if have.life == n.Incarnation && have.last.After(last) {
			last = have.last
		}
		all = append(all, silence{n.ID, n.Incarnation, n.State, time.Since(last), have.leaderless})
	}
	t.leaderless = 0 // does not apply to incarnations that register later
	var held time.Duration
	if !t.hold.since.IsZero() {
		held = time.Since(t.hold.since)
	}
	due, missing, hold, again := l.decide(all, held)
	switch {
	case !hold:
		t.hold.since = time.Time{}
	case t.hold.since.IsZero():
		t.hold.since = time.Now()
		warn("so many nodes vanished at once that none is declared dead yet", "missing", missing, "for", l.HoldFor)
	}
	t.hold.missing = missing
	// The decision to expire and the bar on renewals are one step under the lock, so that
	// no renewal is granted in between.
	for _, c := range due {
		if c.State == NodeExpired {
			t.markExpiringLocked(c.ID, c.Incarnation)
		}
	}
	return due, again
}

// LeaseStatus is the leader's view of the leases. On other nodes it is empty.
type LeaseStatus struct {
	// Missing are the nodes whose lease has run out but which have not expired yet.
	Missing []NodeID `json:"missing,omitempty"`
	// HeldSince is when the leader stopped expiring nodes because too many vanished at
	// once; zero while it expires them normally.
	HeldSince time.Time `json:"held_since,omitzero"`
}

// Leases returns the leader's view of the leases.
func (r *Registry) Leases() LeaseStatus {
	if !r.lead.is() {
		return LeaseStatus{}
	}
	r.leases.mu.Lock()
	defer r.leases.mu.Unlock()
	return LeaseStatus{Missing: slices.Clone(r.leases.hold.missing), HeldSince: r.leases.hold.since}
}
