package registry

import (
	"encoding/json"
	"slices"
)

// request is an applied command with its outcome.
type request struct {
	ID    RequestID `json:"id"`
	Index uint64    `json:"index"`
	Kind  kind      `json:"kind"`
	// Digest is that of the payload, to distinguish a resent command from another one with
	// the same id.
	Digest  uint64          `json:"digest"`
	Outcome json.RawMessage `json:"outcome"`
}

// window remembers the commands of the last RequestWindow log indexes, for deduplication. It
// is part of the replicated state, but only the state machine reads it, so it need not be
// immutable. As a memdb table it was more than half of the cost of a command.
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

// forget drops the commands that have left the window when the log is at index. Entries that
// are not commands (elections, membership) count too.
func (w *window) forget(index uint64) {
	for len(w.order) > 0 && w.order[0].Index+RequestWindow <= index {
		delete(w.byID, w.order[0].ID)
		w.order[0] = nil
		w.order = w.order[1:]
	}
}

// list returns the remembered commands, oldest first.
func (w *window) list() []*request { return slices.Clone(w.order) }
