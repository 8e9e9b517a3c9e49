package calls

import "github.com/locusrun/locus/surfaces"

// Amend gives a call whose outcome was unknown the result that came after all. It is
// false when the call has not ended, or its outcome is known.
func (r *Record) Amend(res surfaces.Result) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended || r.result.Code == nil || *r.result.Code != surfaces.CodeOutcomeUnknown {
		return false
	}
	r.complete(&res)
	r.result = res
	return true
}
