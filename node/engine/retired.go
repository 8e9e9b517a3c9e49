package engine

import (
	"maps"
	"slices"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// maxRetired bounds how many sessions are remembered that are no more. Of twice as
// many the older half is forgotten: epochs are in the order of their grants.
const maxRetired = 8192

// retired remembers the last epoch of sessions that this engine has let go. A call
// that was routed by an older view of the mesh must not find an empty session where
// one with a state was.
type retired map[surfaces.SessionKey]epitaph

type epitaph struct {
	epoch  uint64
	reason string
	at     time.Time
}

// retire lets go of sessions that have ended.
func (e *Engine) retire(ended []*session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range ended {
		if e.sessions[s.key] == s {
			delete(e.sessions, s.key)
		}
		s.mu.Lock()
		e.retired.add(s.key, epitaph{epoch: s.epoch, reason: s.reason, at: s.goneAt})
		s.mu.Unlock()
	}
}

func (r retired) add(key surfaces.SessionKey, e epitaph) {
	if e.epoch > r[key].epoch {
		r[key] = e
	}
	if len(r) < 2*maxRetired {
		return
	}
	var epochs []uint64
	for _, old := range r {
		epochs = append(epochs, old.epoch)
	}
	slices.Sort(epochs)
	middle := epochs[len(epochs)/2]
	maps.DeleteFunc(r, func(_ surfaces.SessionKey, e epitaph) bool { return e.epoch < middle })
}

// refuse gives the error for a session that is no more; nil when the epoch is new.
func (r retired) refuse(key surfaces.SessionKey, epoch uint64) error {
	e, ok := r[key]
	if !ok || epoch > e.epoch {
		return nil
	}
	if epoch < e.epoch {
		return &staleError{key: key, asked: epoch, known: e.epoch}
	}
	reason := e.reason
	if reason == "" {
		reason = reasonClosed
	}
	return &goneError{surfaces.LostAttempt{Before: true, Reason: reason, At: e.at, Epoch: epoch}}
}

const reasonClosed = "closed"
