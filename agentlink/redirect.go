package agentlink

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/locusrun/locus/mesh"
)

// Drain ends the connections and accepts no more, because the node ends. The machines connect
// to other nodes, for which AwaitMoved waits. Running calls go on.
func (h *Hub) Drain() {
	h.mu.Lock()
	h.draining = true
	h.mu.Unlock()
	h.sendElsewhere()
}

// comesBackWithin is how long a machine that can reach no other node takes at most to come
// back: it has tried all of them.
const comesBackWithin = 10 * time.Minute

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

// sentElsewhere returns errDraining with the nodes that the machine is to try first. Others that
// it knows may be down.
func (h *Hub) sentElsewhere() error {
	data, err := json.Marshal(elsewhere{Nodes: h.cfg.Directory.Elsewhere()})
	if err != nil {
		return errors.Join(errDraining, err)
	}
	return &mesh.Error{Code: errDraining.Code, Message: errDraining.Message, Data: data}
}

// nodesElsewhere returns the nodes that a node has named to which it has sent the machine. A
// node of an earlier release names none.
func nodesElsewhere(err error) []mesh.NodeAddr {
	var e *mesh.Error
	var to elsewhere
	if !errors.As(err, &e) || e.Code != codeDraining || json.Unmarshal(e.Data, &to) != nil {
		return nil
	}
	return to.Nodes
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
