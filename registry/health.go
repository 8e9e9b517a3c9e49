package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"
)

// health is what a leader knows about the other members. It is kept in memory, and every new
// leader starts with nothing.
type health struct {
	mu    sync.Mutex
	began time.Time // when this node became leader
	known map[NodeID]pulse
}

type pulse struct {
	heard   time.Time // when it last answered
	since   time.Time // since when it has answered without a gap; zero while it does not
	applied uint64    // the log index that it has applied
}

func newHealth() *health { return &health{known: map[NodeID]pulse{}} }

// restart forgets everything: what this node saw when it was leader before is out of date.
func (h *health) restart() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.began = time.Now()
	clear(h.known)
}

// heard records an answer of a member.
func (h *health) heard(id NodeID, applied uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p, now := h.known[id], time.Now()
	if p.since.IsZero() {
		p.since = now
	}
	p.heard, p.applied = now, max(p.applied, applied)
	h.known[id] = p
}

// silent records that a member did not answer.
func (h *health) silent(id NodeID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.known[id]
	p.since = time.Time{}
	h.known[id] = p
}

func (h *health) lastHeard(id NodeID) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.known[id].heard
}

// snapshot copies what is known, and when it began to be recorded. The silence of a member
// that was never heard from counts from then.
func (h *health) snapshot() (map[NodeID]pulse, time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.known), h.began
}

// probeReply is the answer to an opProbe.
type probeReply struct {
	Applied uint64 `json:"applied"`
	// Term is the latest term that the member had seen when it was asked.
	Term uint64 `json:"term"`
}

func (r *Registry) probed() answer { return done(probeReply{r.View().Index(), r.raft.CurrentTerm()}) }

// probe asks a member which index it has applied, unless it was heard from within a given
// time, and waits for the answer until timeout.
func (r *Registry) probe(ctx context.Context, id NodeID, within, timeout time.Duration) {
	if time.Since(r.health.lastHeard(id)) < within {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	p, err := r.askProbe(ctx, id)
	switch {
	case err == nil:
		r.health.heard(id, p.Applied)
	case ctx.Err() != nil && context.Cause(ctx) != context.DeadlineExceeded:
		// The leadership is over; that says nothing about the member.
	default:
		r.health.silent(id)
	}
}

func (r *Registry) askProbe(ctx context.Context, id NodeID) (p probeReply, err error) {
	b, _, err := r.config.Forward(ctx, id, call{op: opProbe}.encode())
	if err != nil {
		return p, err
	}
	a, err := decodeAnswer(b)
	if err != nil {
		return p, err
	}
	if a.status != statusDone {
		return p, fmt.Errorf("%w: status %d of a probe", errWire, a.status)
	}
	if err := json.Unmarshal(a.body, &p); err != nil {
		return p, fmt.Errorf("%w: %w", errWire, err)
	}
	return p, nil
}
