package node

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/registry"
)

// eventQueue is how many events a reader may be behind before it loses some.
const eventQueue = 256

// events hands what happens on the node to whoever listens.
type events struct {
	mu      sync.Mutex
	seq     int64
	readers map[*reader]struct{}
}

type reader struct {
	queue   chan gateway.MeshEvent
	dropped int64
}

// publish tells every reader; one that is too slow misses it and is told how many
// it missed.
func (e *events) publish(kind string, data any) {
	b, err := json.Marshal(data)
	if err != nil {
		b = json.RawMessage("null")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seq++
	ev := gateway.MeshEvent{Seq: e.seq, At: time.Now().UTC(), Kind: kind, Data: b}
	for r := range e.readers {
		r.offer(ev)
	}
}

func (r *reader) offer(ev gateway.MeshEvent) {
	if r.dropped > 0 {
		told, _ := json.Marshal(map[string]int64{"events": r.dropped})
		select {
		case r.queue <- gateway.MeshEvent{Seq: ev.Seq, At: ev.At, Kind: "dropped", Data: told}:
			r.dropped = 0
		default:
			r.dropped++
			return
		}
	}
	select {
	case r.queue <- ev:
	default:
		r.dropped++
	}
}

func (e *events) follow(ctx context.Context, emit func(gateway.MeshEvent) error) error {
	r := &reader{queue: make(chan gateway.MeshEvent, eventQueue)}
	e.mu.Lock()
	if e.readers == nil {
		e.readers = make(map[*reader]struct{})
	}
	e.readers[r] = struct{}{}
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		delete(e.readers, r)
		e.mu.Unlock()
	}()
	for {
		select {
		case ev := <-r.queue:
			if err := emit(ev); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// everywhere tells the events of this node and of all others until ctx ends, or
// the reader is gone. A node that comes later is heard from when it is there.
func (n *Node) everywhere(ctx context.Context, emit func(gateway.MeshEvent) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel(nil)
	var mu sync.Mutex
	one := func(ev gateway.MeshEvent) error {
		mu.Lock()
		defer mu.Unlock()
		if err := emit(ev); err != nil {
			cancel(err)
			return err
		}
		return nil
	}
	all.Go(func() {
		err := n.events.follow(ctx, func(ev gateway.MeshEvent) error {
			ev.Node = string(n.id)
			return one(ev)
		})
		cancel(err)
	})
	listening := map[registry.NodeID]bool{}
	for ctx.Err() == nil {
		view := n.registry.View()
		for _, id := range n.others() {
			mu.Lock()
			heard := listening[id]
			listening[id] = true
			mu.Unlock()
			if heard {
				continue
			}
			all.Go(func() {
				if err := n.listenTo(ctx, id, one); err != nil {
					n.cfg.Log.Debug("a node's events are not heard any more", "node", id, "error", err)
				}
				mu.Lock()
				defer mu.Unlock()
				delete(listening, id)
			})
		}
		select {
		case <-view.Changed():
		case <-ctx.Done():
		}
	}
	return context.Cause(ctx)
}

// listenTo tells the events of another node.
func (n *Node) listenTo(ctx context.Context, id registry.NodeID, emit func(gateway.MeshEvent) error) error {
	s, err := n.mesh.Stream(ctx, string(id), methodEvents)
	if err != nil {
		return err
	}
	defer s.Cancel()
	for {
		b, err := s.Receive()
		if err != nil {
			return err
		}
		var ev gateway.MeshEvent
		if err := json.Unmarshal(b, &ev); err != nil {
			return err
		}
		ev.Node = string(id)
		if err := emit(ev); err != nil {
			return err
		}
	}
}

// serveEvents tells another node what happens on this one.
func (n *Node) serveEvents(ctx context.Context, s *mesh.Stream) error {
	return n.events.follow(ctx, func(ev gateway.MeshEvent) error {
		b, err := json.Marshal(ev)
		if err != nil {
			return err
		}
		return s.Send(b)
	})
}
