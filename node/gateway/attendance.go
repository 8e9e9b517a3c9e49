package gateway

import "sync"

// attendance counts, for each call, the requests that wait for it or follow it. The caller
// counts as gone only when the last of them leaves, so that one who only looks on does not
// end the call for one who waits.
type attendance struct {
	mu sync.Mutex
	n  map[string]int
}

func (a *attendance) enter(callID string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.n == nil {
		a.n = make(map[string]int)
	}
	a.n[callID]++
}

// leave reports whether that was the last one.
func (a *attendance) leave(callID string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.n[callID]--
	if a.n[callID] > 0 {
		return false
	}
	delete(a.n, callID)
	return true
}
