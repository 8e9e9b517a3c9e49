package node

import (
	"context"
	"time"

	"github.com/locusrun/locus/registry"
)

// reconcileEvery is the interval when the registry does not change.
const reconcileEvery = 10 * time.Second

// reconcile ends what this node holds but should not: sessions that are closed, lost or
// owned by another node, MCP servers that are no longer configured, and everything of ended
// actors. It compares states instead of following changes, so it cannot miss any.
func (n *Node) reconcile(ctx context.Context) {
	tick := time.NewTicker(reconcileEvery)
	defer tick.Stop()
	var before map[registry.NodeID]registry.NodeState
	for ctx.Err() == nil {
		// Read what the node holds first: the view is then at least as new.
		held, actors := n.engine.Epochs(), n.runtimes.all()
		view := n.registry.View()
		for key, epoch := range held {
			s, ok := view.Session(key)
			switch {
			case !ok:
				n.engine.CloseSession(key, epoch)
			case uint64(s.Epoch) > epoch, s.Owner != n.id, s.State == registry.SessionLost:
				n.engine.LoseSession(key, epoch)
			}
		}
		for actor := range actors {
			if a, ok := view.Actor(actor); !ok || a.Ended() {
				n.endActor(actor)
			}
		}
		n.reconcileServers(view)
		n.reconcileMachines(view)
		before = n.publishNodeChanges(view, before)
		select {
		case <-view.Changed():
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// endActor ends everything of an actor on this node.
func (n *Node) endActor(actor string) {
	for _, r := range n.calls.List(actor) {
		n.stop(r.ID)
	}
	n.engine.EndActor(actor)
	n.runtimes.endActor(actor)
}

// publishNodeChanges publishes the changes of the nodes' states since before. Only the leader does,
// so that each is published once.
func (n *Node) publishNodeChanges(view registry.View, before map[registry.NodeID]registry.NodeState) map[registry.NodeID]registry.NodeState {
	now := make(map[registry.NodeID]registry.NodeState)
	for _, node := range view.Nodes() {
		now[node.ID] = node.State
	}
	if before == nil || !n.registry.Leading() {
		return now
	}
	for id, state := range now {
		if before[id] != state {
			n.events.publish("node_"+string(state), map[string]any{"node": id, "sessions": len(view.SessionsOn(id))})
		}
	}
	for id := range before {
		if _, ok := now[id]; !ok {
			n.events.publish("node_removed", map[string]any{"node": id})
		}
	}
	return now
}
