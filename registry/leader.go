package registry

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// catchUp is how many log entries a node may be behind and still become a voter.
const catchUp = 256

// leaderTasks runs the leader's own tasks until the leadership is lost.
func (r *Registry) leaderTasks(ctx context.Context) {
	ready, _ := r.lead.state()
	r.health.restart()
	r.leases.restart(r.timeWithoutLeader())
	var all sync.WaitGroup
	all.Go(func() { r.watchLeases(ctx) })
	all.Go(func() { r.broadcastCommits(ctx, ready.term) })
	if r.config.Forward != nil {
		all.Go(func() { r.manageVoters(ctx) })
	}
	all.Wait()
}

// timeWithoutLeader is how long there was no leader before this node became one. It is 0 if
// that was longer than a lease: then it was not a mere change of leaders, and the nodes may
// still be reconnecting.
func (r *Registry) timeWithoutLeader() time.Duration {
	last := r.raft.LastContact() // with the previous leader
	if silence := time.Since(last); !last.IsZero() && silence <= r.LeaseConfig().TTL {
		return silence
	}
	return 0
}

// manageVoters promotes and demotes members so that the number of voters is right.
func (r *Registry) manageVoters(ctx context.Context) {
	every := max(min(r.config.StableFor/3, time.Second), 10*time.Millisecond)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		r.probeAll(ctx, every)
		for ctx.Err() == nil {
			change, due := planVoters(r.memberStatuses(), r.config.MaxVoters)
			if !due || !r.changeVoter(change) {
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
			// Who renews its lease in time needs no probe.
			all.Go(func() { r.probe(ctx, id, max(within, 3*r.LeaseConfig().renewEvery()/2), within) })
		}
	}
	all.Wait()
}

// memberStatuses returns the status of every member, as this leader knows it.
func (r *Registry) memberStatuses() []memberStatus {
	known, began := r.health.snapshot()
	now, index := time.Now(), r.View().Index()
	var all []memberStatus
	for _, s := range r.servers() {
		m := memberStatus{id: NodeID(s.ID), voter: s.Suffrage == raft.Voter, self: NodeID(s.ID) == r.dir.owner}
		p := known[m.id]
		heard := p.heard
		if heard.IsZero() {
			heard = began
		}
		m.responsive = m.self || !p.since.IsZero()
		m.ready = m.responsive && now.Sub(p.since) >= r.config.StableFor && p.applied+catchUp >= index
		m.dead = !m.self && now.Sub(heard) >= r.config.ReplaceAfter
		all = append(all, m)
	}
	return all
}

// changeVoter promotes or demotes one member, and reports whether that succeeded.
func (r *Registry) changeVoter(s voterChange) bool {
	var change raft.IndexFuture
	if s.promote {
		change = r.raft.AddVoter(raft.ServerID(s.id), raft.ServerAddress(s.id), 0, enqueueTimeout)
	} else {
		change = r.raft.DemoteVoter(raft.ServerID(s.id), 0, enqueueTimeout)
	}
	if err := change.Error(); err != nil {
		r.log.Warn("a change of the voters failed", "node", s.id, "voter", s.promote, "error", err)
		return false
	}
	r.log.Info("the voters changed", "node", s.id, "voter", s.promote)
	return true
}
