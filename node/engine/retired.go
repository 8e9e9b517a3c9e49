package engine

import (
	"maps"
	"slices"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// maxRetired bounds the remembered sessions. At twice as many the older half, by epoch, is
// dropped.
const maxRetired = 8192

// retired remembers the last epoch of each session that has ended on this engine. A call
// that was routed by an outdated view must not get a new, empty session in place of one
// that had state.
type retired map[surfaces.SessionKey]retiredSession

type retiredSession struct {
	epoch  uint64
	reason string // empty if it was closed on purpose
	at     time.Time
}

// retire removes ended sessions.
func (e *Engine) retire(ended []*session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range ended {
		if e.sessions[s.key] == s {
			delete(e.sessions, s.key)
		}
		s.mu.Lock()
		e.retired.add(s.key, retiredSession{epoch: s.epoch, reason: s.reason, at: s.goneAt})
		s.mu.Unlock()
	}
}

func (r retired) add(key surfaces.SessionKey, e retiredSession) {
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
	maps.DeleteFunc(r, func(_ surfaces.SessionKey, e retiredSession) bool { return e.epoch < middle })
}

// refuse returns the error for an ended session, or nil if the epoch is newer.
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
