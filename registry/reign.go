package registry

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// catchUp is how many entries a node may be behind and still count as up to date.
const catchUp = 256

// reign does what the leader does by itself, until the lead is lost.
func (r *Registry) reign(ctx context.Context) {
	ready, _ := r.lead.state()
	r.health.restart()
	r.tenures.restart(r.leaderless())
	var all sync.WaitGroup
	all.Go(func() { r.judgeLeases(ctx) })
	all.Go(func() { r.tellAll(ctx, ready.term) })
	if r.config.Forward != nil {
		all.Go(func() { r.tendVoters(ctx) })
	}
	all.Wait()
}

// leaderless is how long nobody led before this node. More than a lease was no mere
// change of leaders: then the nodes may have yet to find each other again, and none of
// it counts.
func (r *Registry) leaderless() time.Duration {
	last := r.raft.LastContact() // with the leader before
	if silence := time.Since(last); !last.IsZero() && silence <= r.LeaseConfig().TTL {
		return silence
	}
	return 0
}

// tendVoters keeps the right number of voters among the members.
func (r *Registry) tendVoters(ctx context.Context) {
	every := max(min(r.config.StableFor/3, time.Second), 10*time.Millisecond)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		r.probeAll(ctx, every)
		for ctx.Err() == nil {
			next, due := plan(r.standings(), r.config.MaxVoters)
			if !due || !r.take(next) {
				break
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (r *Registry) probeAll(ctx context.Context, within time.Duration) {
	var all sync.WaitGroup
	for _, s := range r.servers() {
		if id := NodeID(s.ID); id != r.dir.owner {
			all.Go(func() { r.probe(ctx, id, within) })
		}
	}
	all.Wait()
}

// standings says where the members stand now.
func (r *Registry) standings() []standing {
	known, began := r.health.snapshot()
	now, index := time.Now(), r.View().Index()
	var all []standing
	for _, s := range r.servers() {
		m := standing{id: NodeID(s.ID), voter: s.Suffrage == raft.Voter, self: NodeID(s.ID) == r.dir.owner}
		p := known[m.id]
		heard := p.heard
		if heard.IsZero() {
			heard = began
		}
		m.well = m.self || !p.since.IsZero()
		m.ready = m.well && now.Sub(p.since) >= r.config.StableFor && p.applied+catchUp >= index
		m.dead = !m.self && now.Sub(heard) >= r.config.ReplaceAfter
		all = append(all, m)
	}
	return all
}

// take makes one change of who votes, and reports whether it was made.
func (r *Registry) take(s step) bool {
	var change raft.IndexFuture
	if s.promote {
		change = r.raft.AddVoter(raft.ServerID(s.id), raft.ServerAddress(s.id), 0, enqueueTimeout)
	} else {
		change = r.raft.DemoteVoter(raft.ServerID(s.id), 0, enqueueTimeout)
	}
	if err := change.Error(); err != nil {
		r.log.Warn("a change of who votes failed", "node", s.id, "voter", s.promote, "error", err)
		return false
	}
	r.log.Info("who votes changed", "node", s.id, "voter", s.promote)
	return true
}
