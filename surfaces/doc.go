// Package surfaces defines execute_code and the session tools: the coordinates of an
// execution, the request, the result, the refusals, and the rules that validate a call.
//
// Resolve turns arguments and a View of the mesh into a Call or a Refusal. A refusal reports
// every fault at once. Its suggestion corrects them all, and if there is only one sensible
// correction, the Fix holds it in a form that a program can apply. The rules run in stages
// over a draft of the call. Each stage corrects the faults that it finds before the next one
// runs, so the correction of the whole call is the difference between the draft as received
// and the draft at the end. The code of the refusal is the first one in the order of
// Precedence.
//
// One table of arguments (Tools) drives the decoder, the JSON Schemas and the documents.
//
// Everything here is pure: the package does no I/O, reads no clock and imports nothing else
// of Locus, so that every door and every machine validates a call by the same rules.
package surfaces
