package registry

import (
	"encoding/json"
	"slices"
)

// request is a command that was applied, with what was answered.
type request struct {
	ID    RequestID `json:"id"`
	Index uint64    `json:"index"`
	Kind  kind      `json:"kind"`
	// Digest is of the payload, to tell a resent command from another one under
	// the same id.
	Digest  uint64          `json:"digest"`
	Outcome json.RawMessage `json:"outcome"`
}

// window remembers the commands of the last RequestWindow log indexes. It is part
// of the replicated state, but nobody reads it beside the state machine, so it
// need not be immutable; as one more table it was more than half of what a command
// costs.
type window struct {
	byID  map[RequestID]*request
	order []*request // oldest first
}

func newWindow() *window { return &window{byID: map[RequestID]*request{}} }

func (w *window) find(id RequestID) *request { return w.byID[id] }

func (w *window) add(r *request) {
	w.byID[r.ID] = r
	w.order = append(w.order, r)
}

// forget drops what has left the window when the log is at index. Indexes without
// a command of ours (elections, membership) count too.
func (w *window) forget(index uint64) {
	for len(w.order) > 0 && w.order[0].Index+RequestWindow <= index {
		delete(w.byID, w.order[0].ID)
		w.order[0] = nil
		w.order = w.order[1:]
	}
}

// list gives the remembered commands, oldest first.
func (w *window) list() []*request { return slices.Clone(w.order) }
