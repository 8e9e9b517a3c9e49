package agentlink

import "time"

// Drain ends the connections and accepts no more, because the node ends. The machines connect
// to other nodes, for which AwaitMoved waits. Running calls go on.
func (h *Hub) Drain() {
	h.mu.Lock()
	h.draining = true
	h.mu.Unlock()
	h.sendElsewhere()
}

// comesBackWithin is how long a machine that can reach no other node takes at most to come
// back.
const comesBackWithin = time.Minute

// Redirect sets whether machines are sent to other nodes. A machine that comes back at once
// can reach no other node, and is accepted.
func (h *Hub) Redirect(on bool) {
	h.mu.Lock()
	begins := on && h.redirected == nil
	switch {
	case begins:
		h.redirected = make(map[string]time.Time)
		for id := range h.attached {
			h.redirected[id] = time.Now()
		}
	case !on:
		h.redirected = nil
	}
	h.mu.Unlock()
	if begins {
		h.sendElsewhere()
	}
}

// redirects reports whether a machine that connects is sent to another node. h.mu is held.
func (h *Hub) redirects(id string) bool {
	if h.redirected == nil || time.Since(h.redirected[id]) < comesBackWithin {
		return false
	}
	h.redirected[id] = time.Now()
	return true
}

// sendElsewhere ends all connections, so that the machines connect to other nodes.
func (h *Hub) sendElsewhere() {
	h.mu.Lock()
	all := make([]*attachment, 0, len(h.attached))
	for _, at := range h.attached {
		all = append(all, at)
	}
	h.mu.Unlock()
	for _, at := range all {
		h.remove(at, errDraining) // now, so that AwaitMoved waits for it
		at.end(errDraining)
	}
}
