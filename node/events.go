package node

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/locusrun/locus/node/gateway"
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
