package registry

import (
	"context"
	"math"
	"slices"
	"time"
)

// seen is how long a node whose life is not over has been silent.
type seen struct {
	id     NodeID
	life   Incarnation
	state  NodeState
	silent time.Duration
	// before is how long nobody led before the silence began. No lease is known to
	// have ended by it, but the node has had that much of its grace.
	before time.Duration
}

// graceIn gives when the grace of a node that stays silent is over.
func (s seen) graceIn(l LeaseConfig) time.Duration {
	return max(l.missed()-s.silent, l.missed()+l.Grace-s.silent-s.before)
}

// judge says what is to be declared of which nodes, and after which time to look
// again, if nothing is heard of them meanwhile. It is a pure function.
//
// When at least two nodes, and at least half of all, fall silent within one TTL of
// each other, the leader is likelier to be at fault than they: then it doubts. While
// it does, for HoldFor at most, nobody's life is declared over.
func (l LeaseConfig) judge(all []seen, doubted time.Duration) (due []MarkNode, missing []NodeID, doubt bool, again time.Duration) {
	again = l.lookEvery()
	var silent []seen
	latest := time.Duration(math.MaxInt64) // the shortest of the silences
	for _, s := range all {
		if s.silent < l.missed() {
			again = min(again, l.missed()-s.silent)
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
	doubt = together >= 2 && 2*together >= len(all)
	for _, s := range silent {
		switch {
		case s.state == NodeUp:
			due = append(due, MarkNode{ID: s.id, Incarnation: s.life, State: NodeUnreachable})
		case s.graceIn(l) <= 0 && (!doubt || doubted >= l.HoldFor):
			due = append(due, MarkNode{ID: s.id, Incarnation: s.life, State: NodeExpired})
		}
	}
	if len(due) > 0 {
		again = 0 // who is unreachable now may have had all its grace
	}
	return due, missing, doubt, again
}

// judgeLeases declares what has become of nodes that do not renew, as long as this
// node leads.
func (r *Registry) judgeLeases(ctx context.Context) {
	look := time.NewTimer(0)
	defer look.Stop()
	before := time.Now()
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
		now := time.Now()
		if gap := now.Sub(before); gap > r.LeaseConfig().TTL/2 {
			r.log.Warn("the leader stood still; that time counts for no lease", "for", gap)
			r.tenures.stoodStill(gap)
		}
		due, again := r.tenures.due(r.View().tables().nodes(), r.LeaseConfig(), r.log.Warn)
		for _, c := range due {
			out, err := r.MarkNode(ctx, c)
			if err != nil {
				r.log.Warn("a node's state could not be recorded", "node", c.ID, "state", c.State, "error", err)
				again = r.LeaseConfig().lookEvery()
				continue
			}
			r.log.Warn("a node's lease was missed", "node", c.ID, "incarnation", c.Incarnation, "state", c.State,
				"result", out.Result, "sessions", out.Sessions)
		}
		before = now
		look.Reset(again)
	}
}

// due gives what is to be declared now and after which time to ask again, and
// follows the doubt.
func (t *tenures) due(nodes []*Node, l LeaseConfig, warn func(string, ...any)) (due []MarkNode, again time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []seen
	for _, n := range nodes {
		if n.State == NodeExpired {
			continue
		}
		have := t.of[n.ID]
		if have.life < n.Incarnation {
			// A life that is new to this leader has its time from now on: it has yet to
			// ask for its first lease.
			have = tenure{life: n.Incarnation, last: time.Now(), before: t.leaderless}
			t.of[n.ID] = have
		}
		last := t.began
		if have.life == n.Incarnation && have.last.After(last) {
			last = have.last
		}
		all = append(all, seen{n.ID, n.Incarnation, n.State, time.Since(last), have.before})
	}
	t.leaderless = 0 // lives that come later have had none of it
	var doubted time.Duration
	if !t.doubt.since.IsZero() {
		doubted = time.Since(t.doubt.since)
	}
	due, missing, doubt, again := l.judge(all, doubted)
	switch {
	case !doubt:
		t.doubt.since = time.Time{}
	case t.doubt.since.IsZero():
		t.doubt.since = time.Now()
		warn("so many nodes vanished at once that none is declared dead yet", "missing", missing, "for", l.HoldFor)
	}
	t.doubt.missing = missing
	// From here on nothing is granted to those who are declared over: decided and
	// barred in one step, or a renewal could slip in between.
	for _, c := range due {
		if c.State == NodeExpired {
			t.bar(c.ID, c.Incarnation)
		}
	}
	return due, again
}

// LeaseStatus is what the leader sees of the leases. Other nodes see nothing.
type LeaseStatus struct {
	// Missing are the nodes that have missed their lease and may still come back.
	Missing []NodeID `json:"missing,omitempty"`
	// HeldSince is since when no life is declared over because too many vanished at
	// once; zero while lives are.
	HeldSince time.Time `json:"held_since,omitzero"`
}

// Leases gives the state of the leases as the leader sees it.
func (r *Registry) Leases() LeaseStatus {
	if !r.lead.is() {
		return LeaseStatus{}
	}
	r.tenures.mu.Lock()
	defer r.tenures.mu.Unlock()
	return LeaseStatus{Missing: slices.Clone(r.tenures.doubt.missing), HeldSince: r.tenures.doubt.since}
}
