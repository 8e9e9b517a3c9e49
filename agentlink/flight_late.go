package agentlink

import (
	"time"

	"github.com/locusrun/locus/surfaces"
)

// keepOver and keepOverFor bound the calls that are over, and whose results are still
// taken.
const (
	keepOver    = 1024
	keepOverFor = 24 * time.Hour
)

// leave ends the wait: whatever comes from now on is late. It gives the result if there
// is one, and keeps the flight for a machine that comes back. f.mu is held.
func (f *hubCall) detach() surfaces.Result {
	f.detached = true
	f.hub.retain(f)
	return f.trim()
}

// trim gives the result, and lets go of what nobody asks for any more: flights that are
// over are many, and what they hold may be long. f.mu is held.
func (f *hubCall) trim() (res surfaces.Result) {
	call := &f.attempt.Call
	call.Code, call.Stdin, call.Files = "", "", nil
	if f.result != nil {
		res = *f.result
		f.result = &surfaces.Result{CallID: res.CallID}
	}
	return res
}

// keep remembers a flight that is over, and forgets the oldest ones. f.mu is held.
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

// missed reports whether a machine asks too late what it is to run: nobody waits any
// more. It has not begun then, so that the outcome is known after all. f.mu is held.
func (f *hubCall) tooLate() bool {
	if f.detached && f.result == nil {
		res := f.unreachable().Result(f.partial())
		f.result = &res
		f.deliverLate()
	}
	return f.detached
}

// late hands on a result that nobody waited for. f.mu is held.
func (f *hubCall) deliverLate() {
	if !f.hub.cfg.Late(f.attempt.CallID, f.trim()) {
		f.hub.cfg.Log.Debug("a result came after its call was forgotten", "call_id", f.attempt.CallID, "machine", f.machine.Name)
	}
}
