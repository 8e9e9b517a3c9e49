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
func (f *flight) leave() surfaces.Result {
	f.left = true
	f.hub.keep(f)
	return f.shed()
}

// shed gives the result, and lets go of what nobody asks for any more: flights that are
// over are many, and what they hold may be long. f.mu is held.
func (f *flight) shed() (res surfaces.Result) {
	call := &f.attempt.Call
	call.Code, call.Stdin, call.Files = "", "", nil
	if f.result != nil {
		res = *f.result
		f.result = &surfaces.Result{CallID: res.CallID}
	}
	return res
}

// keep remembers a flight that is over, and forgets the oldest ones. f.mu is held.
func (h *Hub) keep(f *flight) {
	f.overAt = time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = append(h.over, f)
	drop := 0
	for drop < len(h.over) && (len(h.over)-drop > keepOver || time.Since(h.over[drop].overAt) > keepOverFor) {
		if id := h.over[drop].attempt.CallID; h.flights[id] == h.over[drop] {
			delete(h.flights, id)
		}
		drop++
	}
	h.over = append(h.over[:0:0], h.over[drop:]...)
}

// missed reports whether a machine asks too late what it is to run: nobody waits any
// more. It has not begun then, so that the outcome is known after all. f.mu is held.
func (f *flight) missed() bool {
	if f.left && f.result == nil {
		res := f.unreachable().Result(f.partial())
		f.result = &res
		f.late()
	}
	return f.left
}

// late hands on a result that nobody waited for. f.mu is held.
func (f *flight) late() {
	if !f.hub.cfg.Late(f.attempt.CallID, f.shed()) {
		f.hub.cfg.Log.Debug("a result came after its call was forgotten", "call_id", f.attempt.CallID, "machine", f.machine.Name)
	}
}
