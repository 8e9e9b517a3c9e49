package calls

import "github.com/locusrun/locus/surfaces"

// Amend gives a call that has ended with an unknown outcome the result that came after
// all. It does nothing and gives false when the call has not ended, or its outcome is
// known. note is called before anybody can have the result.
func (r *Record) Amend(res surfaces.Result, note func()) bool {
	r.ending.Lock()
	defer r.ending.Unlock()
	return r.amend(res, note)
}

// amend is Amend for who holds r.ending.
func (r *Record) amend(res surfaces.Result, note func()) bool {
	if !r.unknown() {
		return false
	}
	note()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.complete(&res)
	r.result = res
	return true
}

// unknown reports whether the call has ended and what came of it is not known.
func (r *Record) unknown() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended && r.result.Code != nil && *r.result.Code == surfaces.CodeOutcomeUnknown
}
