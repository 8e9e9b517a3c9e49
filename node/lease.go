package node

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/registry"
)

// serveLease renews the lease until ctx ends. When the lease is lost, the sessions are
// ended and the node registers a new life (incarnation).
func (n *Node) serveLease(ctx context.Context) {
	for {
		lease := n.lease.Load()
		select {
		case <-lease.Done():
		case <-ctx.Done():
			<-lease.Done()
			return
		}
		if ctx.Err() != nil {
			return
		}
		n.rejoin(ctx)
	}
}

// rejoin registers a new life, with retries until the registry accepts it.
func (n *Node) rejoin(ctx context.Context) {
	for pause := 100 * time.Millisecond; ctx.Err() == nil; pause = min(2*pause, 5*time.Second) {
		err := n.register(ctx)
		if err == nil {
			return
		}
		n.cfg.Log.Warn("this node could not register again yet", "error", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// register registers a life of the node and takes a lease for it.
func (n *Node) register(ctx context.Context) error {
	reg, err := n.registry.RegisterNode(ctx, registry.RegisterNode{
		ID: n.id, Addr: n.advertise, Labels: n.cfg.Labels, HTTP: n.http, Version: n.cfg.Version,
		Languages: n.languageNames(), Capacity: n.cfg.capacity(),
	})
	if err != nil {
		return err
	}
	if reg.Lost > 0 {
		n.cfg.Log.Warn("sessions of the node's earlier life are lost", "sessions", reg.Lost)
	}
	n.lease.Store(n.registry.KeepLease(n.ctx, reg.Incarnation, registry.LeaseEvents{
		Freeze: n.freeze, Granted: n.granted, Thaw: n.thaw, Fenced: n.fenced, Load: n.load,
	}))
	return nil
}

// takeLabels gives a node that has just joined the labels of its join token. Labels set by
// an operator override the node's own configuration until an operator changes them.
func (n *Node) takeLabels(ctx context.Context) error {
	if !n.member.IsJoining() {
		return nil
	}
	for _, t := range n.registry.View().Tokens() {
		joined := slices.ContainsFunc(t.Uses, func(u registry.TokenUse) bool { return u.Node == n.id })
		if !joined || len(t.Labels) == 0 {
			continue
		}
		labels := maps.Clone(t.Labels)
		for k, v := range n.cfg.Labels {
			if _, ok := labels[k]; !ok {
				labels[k] = v
			}
		}
		_, err := n.registry.LabelNode(ctx, registry.LabelNode{ID: n.id, Labels: labels})
		return err
	}
	return nil
}

// life is the node's current incarnation; 0 before the first.
func (n *Node) life() registry.Incarnation {
	if l := n.lease.Load(); l != nil {
		return l.Incarnation()
	}
	return 0
}

// mayServe reports whether this node has a valid lease.
func (n *Node) mayServe() bool {
	l := n.lease.Load()
	return l != nil && l.Valid()
}

func (n *Node) freeze() {
	n.cfg.Log.Warn("cut off from the mesh: sessions are held still until it is back")
	n.engine.Suspend()
	n.logLeash(n.runtimes.leash.Clear()) // suspended one by one, so the leash is no longer needed
	n.events.publish("node_cut_off", map[string]any{"node": n.id})
}

// granted extends the leash: code may run until the lease ends. After that the keepers
// suspend it, even if this process is stopped.
func (n *Node) granted(d time.Duration) { n.logLeash(n.runtimes.leash.Set(d)) }

func (n *Node) logLeash(err error) {
	if err != nil {
		n.cfg.Log.Error("code may run on when this node is stopped", "error", err)
	}
}

func (n *Node) thaw() {
	n.cfg.Log.Info("back in the mesh in time: sessions go on, nothing was lost")
	n.engine.Resume()
	n.events.publish("node_back", map[string]any{"node": n.id})
}

func (n *Node) fenced(life registry.Incarnation) {
	ended := n.engine.Fence()
	n.logLeash(n.runtimes.leash.Clear())
	n.cfg.Log.Warn("the mesh has given this node up: its sessions are ended", "life", life, "sessions", ended)
	n.events.publish("node_fenced", map[string]any{"node": n.id, "sessions": ended})
}

// load is the load that the node reports with its lease.
func (n *Node) load() registry.Load {
	load := n.currentLoad()
	load.MemoryBytes, load.Trust = residentMemory(), n.registry.View().Trust().Generation
	return load
}

// currentLoad is the load of this node, and whether it takes more.
func (n *Node) currentLoad() registry.Load {
	running, sessions := n.engine.Load()
	return registry.Load{Running: running, Sessions: sessions, NoSessions: !n.memory.has(kernel.Session), NoCalls: !n.memory.has(kernel.OneShot)}
}

// loadOf returns the last known load of a node.
func (n *Node) loadOf(id registry.NodeID) registry.Load {
	if id == n.id {
		return n.currentLoad()
	}
	return n.registry.Loads()[id]
}

func (n *Node) languageNames() []string {
	var names []string
	for _, l := range n.runtimes.languages() {
		names = append(names, string(l))
	}
	return names
}
