// Package surfaces holds the vocabulary and the law of execute_code: the
// coordinates of an execution, the request, the result, the refusals, and the
// validation table that decides which combinations make sense.
//
// Everything here is pure. The package does no I/O, reads no clock, and imports
// nothing else of Locus, so that every door and every machine of a mesh judges
// a call by the same rules.
package surfaces
