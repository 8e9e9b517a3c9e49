package gateway

import "sync"

// attendance counts, per call, the requests that wait for it or follow it. Only
// when the last of them leaves is the caller gone: somebody who merely looked on
// must not take the call away from the one who waits.
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

// leave says whether nobody attends to the call any more.
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
