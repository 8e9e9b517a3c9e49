package agentlink

import (
	"time"

	"github.com/locusrun/locus/surfaces"
)

// keepOver and keepOverFor bound the calls that are kept for a late result after Execute
// has returned.
const (
	keepOver    = 1024
	keepOverFor = 24 * time.Hour
)

// detach ends the wait of Execute. It returns the result, if there is one, and keeps the
// call for a machine that comes back. f.mu is held.
func (f *hubCall) detach() surfaces.Result {
	f.detached = true
	f.hub.retain(f)
	return f.trim()
}

// trim returns the result and drops the program and the result's content, because many
// calls may be kept. f.mu is held.
func (f *hubCall) trim() (res surfaces.Result) {
	call := &f.attempt.Call
	call.Code, call.Stdin, call.Files = "", "", nil
	if f.result != nil {
		res = *f.result
		f.result = &surfaces.Result{CallID: res.CallID}
	}
	return res
}

// retain keeps a call for a late result, and drops the oldest ones. f.mu is held.
func (h *Hub) retain(f *hubCall) {
	f.detachedAt = time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.detached = append(h.detached, f)
	drop := 0
	for drop < len(h.detached) && (len(h.detached)-drop > keepOver || time.Since(h.detached[drop].detachedAt) > keepOverFor) {
		if id := h.detached[drop].attempt.CallID; h.calls[id] == h.detached[drop] {
			delete(h.calls, id)
		}
		drop++
	}
	h.detached = append(h.detached[:0:0], h.detached[drop:]...)
}

// tooLate reports whether a machine asks for the program after Execute has returned. The
// program has not started then, so the outcome is known after all: it did not run. f.mu is
// held.
func (f *hubCall) tooLate() bool {
	if f.detached && f.result == nil {
		res := f.unreachable().Result(f.partial())
		f.result = &res
		f.deliverLate()
	}
	return f.detached
}

// deliverLate passes on a result that came after Execute has returned. f.mu is held.
func (f *hubCall) deliverLate() {
	if !f.hub.cfg.LateResult(f.attempt.CallID, f.trim()) {
		f.hub.cfg.Log.Debug("a late result came after its call's record was dropped", "call_id", f.attempt.CallID, "machine", f.machine.Name)
	}
}
