package agentlink

import (
	"context"
	"errors"
	"time"
)

// returnWithin is how long calls wait for a machine whose connection has just broken. A
// machine that is awake is back by then.
const returnWithin = 2 * time.Second

// maybeBack reports whether a machine is expected back at this node at once, by what ended
// its connection. After a node has stood still, its machines have closed their connections
// and make new ones; a machine that sleeps is silent instead.
func maybeBack(cause error) bool {
	for _, final := range []error{errGoodbye, errSilent, errUnlinked, errDraining} {
		if errors.Is(cause, final) {
			return false
		}
	}
	return true
}

// expect notes that a machine is expected back. h.mu is held.
func (h *Hub) expect(id string) {
	back := make(chan struct{})
	h.expected[id] = back
	time.AfterFunc(h.returnWithin, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.expected[id] == back {
			h.expectNoMore(id)
		}
	})
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
