package calls

import "github.com/locusrun/locus/surfaces"

// Amend replaces the result of a call that ended with an unknown outcome by its real result,
// which arrived later. It does nothing and returns false if the call has not ended or its
// outcome is known. note is called before any reader can see the result.
func (r *Record) Amend(res surfaces.Result, note func()) bool {
	r.ending.Lock()
	defer r.ending.Unlock()
	return r.amend(res, note)
}

// amend is Amend with r.ending held.
func (r *Record) amend(res surfaces.Result, note func()) bool {
	if !r.unknown() {
		return false
	}
	note()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.completeResult(&res)
	r.result = res
	return true
}

// unknown reports whether the call has ended with an unknown outcome.
func (r *Record) unknown() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended && r.result.Code != nil && *r.result.Code == surfaces.CodeOutcomeUnknown
}
