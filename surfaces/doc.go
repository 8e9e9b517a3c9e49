// Package surfaces holds the vocabulary and the law of execute_code and the
// session tools: the coordinates of an execution, the request, the result, the
// refusals, and the validation table that decides which combinations make sense.
//
// Resolve takes arguments and a View of the mesh to a Call or to a Refusal. A
// refusal names every fault at once. Its suggestion mends them all, and where
// only one mend makes sense it is also there as a Fix, which a program can apply.
// The law runs in stages over a draft of the call, and each stage mends what it
// finds before the next one looks; so the mend of the whole is the difference
// between the draft that went in and the one that came out. When several faults
// meet, the code is that of the first in the order of Precedence.
//
// One table of arguments (Tools) drives the decoder, the JSON Schemas and the
// documents.
//
// Everything here is pure. The package does no I/O, reads no clock, and imports
// nothing else of Locus, so that every door and every machine of a mesh judges
// a call by the same rules.
package surfaces
