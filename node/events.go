package node

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/registry"
)

// eventsRetained is how many events are kept for readers that reconnect or are slow.
const eventsRetained = 2048

// events distributes the node's events to readers. boot must be set before use.
type events struct {
	boot int64 // identifies this run of the node

	mu       sync.Mutex
	seq      int64
	retained []gateway.MeshEvent // ring buffer: event seq is at seq % eventsRetained
	changed  chan struct{}       // closed at the next event; nil while nobody waits
}

// publish adds an event.
func (e *events) publish(kind string, data any) {
	b, err := json.Marshal(data)
	if err != nil {
		b = json.RawMessage("null")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.retained == nil {
		e.retained = make([]gateway.MeshEvent, eventsRetained)
	}
	e.seq++
	e.retained[e.seq%eventsRetained] = gateway.MeshEvent{Seq: e.seq, Boot: e.boot, At: time.Now().UTC(), Kind: kind, Data: b}
	if e.changed != nil {
		close(e.changed)
		e.changed = nil
	}
}

// position returns the position of the latest event.
func (e *events) position() gateway.Position {
	e.mu.Lock()
	defer e.mu.Unlock()
	return gateway.Position{Boot: e.boot, Seq: e.seq}
}

// follow emits the events after a position until ctx ends or emit fails. A "dropped" event
// stands for events that are no longer held: it has their number, or null for events of an
// earlier run, whose number is unknown.
func (e *events) follow(ctx context.Context, after gateway.Position, emit func(gateway.MeshEvent) error) error {
	at := after.Seq
	if after.Boot != e.boot {
		at = 0
		if err := emit(e.dropped(0, nil)); err != nil {
			return err
		}
	}
	for {
		ev, missed, changed := e.next(at)
		switch {
		case changed != nil:
			select {
			case <-changed:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			continue
		case missed > 0:
			ev = e.dropped(at+missed, &missed)
		}
		at = ev.Seq
		if err := emit(ev); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// next returns the event after at, or how many after it are no longer held, or a channel
// that is closed when there is a new one.
func (e *events) next(at int64) (ev gateway.MeshEvent, missed int64, changed <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch first := max(1, e.seq-eventsRetained+1); {
	case at >= e.seq:
		if e.changed == nil {
			e.changed = make(chan struct{})
		}
		return ev, 0, e.changed
	case at+1 < first:
		return ev, first - at - 1, nil
	}
	return e.retained[(at+1)%eventsRetained], 0, nil
}

// dropped is the event that stands for the missing ones up to a number.
func (e *events) dropped(upTo int64, count *int64) gateway.MeshEvent {
	told, _ := json.Marshal(map[string]*int64{"events": count}) // a number or null
	return gateway.MeshEvent{Seq: upTo, Boot: e.boot, At: time.Now().UTC(), Kind: "dropped", Data: told}
}

// followAll emits the events of all nodes until ctx ends or emit fails. It also follows
// nodes that join or come back later.
func (n *Node) followAll(ctx context.Context, after gateway.Cursor, emit func(gateway.MeshEvent) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel(nil)
	var mu sync.Mutex
	at := gateway.Cursor{}
	for node, position := range after {
		at[node] = position
	}
	one := func(node registry.NodeID, ev gateway.MeshEvent) error {
		mu.Lock()
		defer mu.Unlock()
		ev.Node = string(node)
		at[ev.Node] = gateway.Position{Boot: ev.Boot, Seq: ev.Seq}
		ev.ID = at.String()
		if err := emit(ev); err != nil {
			cancel(err)
			return err
		}
		return nil
	}
	known := func(node registry.NodeID) *gateway.Position {
		mu.Lock()
		defer mu.Unlock()
		if p, ok := at[string(node)]; ok {
			return &p
		}
		return nil
	}
	from := n.events.position()
	if p := known(n.id); p != nil {
		from = *p
	} else if err := one(n.id, gateway.MeshEvent{Seq: from.Seq, Boot: from.Boot}); err != nil {
		return err
	}
	all.Go(func() {
		cancel(n.events.follow(ctx, from, func(ev gateway.MeshEvent) error { return one(n.id, ev) }))
	})
	n.forEachOther(ctx, &all, func(ctx context.Context, id registry.NodeID) error {
		return n.followNode(ctx, id, known(id), func(ev gateway.MeshEvent) error { return one(id, ev) })
	})
	return context.Cause(ctx)
}

// reconnectDelay is the pause before a node that failed is followed again.
const reconnectDelay = time.Second

// forEachOther runs listen for each other node on a goroutine of its own, and again after a
// pause when it has returned, until ctx ends or the node is gone.
func (n *Node) forEachOther(ctx context.Context, all *sync.WaitGroup, listen func(context.Context, registry.NodeID) error) {
	var mu sync.Mutex
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
			// A goroutine decides under the lock to end. Otherwise a node that comes back
			// just then would count as followed, though its goroutine is ending.
			goesOn := func() bool {
				mu.Lock()
				defer mu.Unlock()
				listening[id] = ctx.Err() == nil && n.mayBeAlive(id)
				return listening[id]
			}
			all.Go(func() {
				for goesOn() {
					if err := listen(ctx, id); err != nil && ctx.Err() == nil {
						n.cfg.Log.Debug("a node is not heard from any more", "node", id, "error", err)
					}
					select {
					case <-time.After(reconnectDelay):
					case <-ctx.Done():
					}
				}
			})
		}
		select {
		case <-view.Changed():
		case <-ctx.Done():
		}
	}
}

// mayBeAlive reports whether a node is known and not expired.
func (n *Node) mayBeAlive(id registry.NodeID) bool {
	node, ok := n.registry.View().Node(id)
	return ok && node.State != registry.NodeExpired
}

// followNode emits the events of another node after a position. Without one it starts now,
// and the first event has only the position. Releases without methodEventsAfter send events
// without positions.
func (n *Node) followNode(ctx context.Context, id registry.NodeID, after *gateway.Position, emit func(gateway.MeshEvent) error) error {
	err := n.stream(ctx, id, methodEventsAfter, eventsAsk{after}, emit)
	if errors.Is(err, mesh.ErrUnknownMethod) {
		return n.stream(ctx, id, methodEvents, nil, emit)
	}
	return err
}

// stream emits the events that another node streams for a method. ask, if not nil, is the
// request.
func (n *Node) stream(ctx context.Context, id registry.NodeID, method string, ask any, emit func(gateway.MeshEvent) error) error {
	return streamOf(ctx, n.mesh, id, method, ask, emit)
}

type eventsAsk struct {
	After *gateway.Position `json:"after,omitempty"`
}

// serveEvents streams the events from now on to another node.
func (n *Node) serveEvents(ctx context.Context, s *mesh.Stream) error {
	return n.events.follow(ctx, n.events.position(), sender[gateway.MeshEvent](s))
}

// serveEventsAfter streams the events after a position to another node.
func (n *Node) serveEventsAfter(ctx context.Context, s *mesh.Stream) error {
	ask, err := receive[eventsAsk](s)
	if err != nil {
		return err
	}
	from := n.events.position()
	if ask.After != nil {
		from = *ask.After
	} else if err := sender[gateway.MeshEvent](s)(gateway.MeshEvent{Seq: from.Seq, Boot: from.Boot}); err != nil {
		return err
	}
	return n.events.follow(ctx, from, sender[gateway.MeshEvent](s))
}
