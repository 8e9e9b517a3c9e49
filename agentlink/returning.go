package agentlink

import (
	"context"
	"errors"
	"slices"
	"time"
)

// returnWithin is how long calls wait for a machine whose connection has just ended. A
// machine that is awake is back by then, or connected to another node.
const returnWithin = 2 * time.Second

// maybeBack reports whether a machine is expected to connect again at once, by what ended its
// connection. After a node has stood still, its machines have closed their connections and
// make new ones; a node that drains sends them to the others. A machine that sleeps is silent
// instead.
func (h *Hub) maybeBack(cause error) bool {
	if errors.Is(cause, errDraining) {
		return len(h.cfg.Directory.Elsewhere()) > 0
	}
	for _, final := range []error{errGoodbye, errSilent, errUnlinked} {
		if errors.Is(cause, final) {
			return false
		}
	}
	return true
}

// expect notes that a machine is expected back. The directory keeps it as connected here
// meanwhile: the calls of all nodes come here, and wait. h.mu is held.
func (h *Hub) expect(id string) {
	back := make(chan struct{})
	h.expected[id] = back
	time.AfterFunc(h.returnWithin, func() {
		h.mu.Lock()
		late := h.expected[id] == back
		if late {
			h.expectNoMore(id)
		}
		h.mu.Unlock()
		if late {
			h.reportSoon(id)
		}
	})
}

// Expected lists the machines that are expected to connect again.
func (h *Hub) Expected() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	ids := make([]string, 0, len(h.expected))
	for id := range h.expected {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Moved ends the waiting for a machine that is connected to another node, or unlinked: the
// calls that wait for it go there, or are refused.
func (h *Hub) Moved(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expectNoMore(id)
}

// AwaitMoved waits until the machines that are expected to connect again have done so, or are
// late.
func (h *Hub) AwaitMoved(ctx context.Context) {
	for {
		var back chan struct{}
		h.mu.Lock()
		for _, back = range h.expected {
			break
		}
		h.mu.Unlock()
		if back == nil {
			return
		}
		select {
		case <-back:
		case <-ctx.Done():
			return
		}
	}
}

// expectNoMore ends the waiting for a machine: it is back, or late. h.mu is held.
func (h *Hub) expectNoMore(id string) {
	if back := h.expected[id]; back != nil {
		close(back)
		delete(h.expected, id)
	}
}

// offerHere offers a call to a machine of this node. It waits for a machine that is expected
// back.
func (h *Hub) offerHere(ctx context.Context, machine string, o offer) offerReply {
	h.mu.Lock()
	back := h.expected[machine]
	h.mu.Unlock()
	if back != nil {
		select {
		case <-back:
			o.Program = nil // its remaining time is out of date: the machine asks the call's home for it
		case <-ctx.Done():
			return offerReply{}
		}
	}
	return h.offerLocal(machine, o)
}
