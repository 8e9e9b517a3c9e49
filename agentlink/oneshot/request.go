package oneshot

import (
	"time"

	"github.com/locusrun/locus/surfaces"
)

// Request is one stateless program for this machine.
type Request struct {
	CallID string
	// Language is one that Languages returns.
	Language string
	Code     string
	// Stdin is the code's standard input.
	Stdin string
	// Timeout is counted from the call of Run. CallTimeout is the call's original timeout_s,
	// which messages name; 0 means the same as Timeout.
	Timeout, CallTimeout time.Duration
	// Files are placed in the code's folder.
	Files []File
	// Primitives allows the code to use its host's primitives. Otherwise each use fails as
	// unavailable.
	Primitives bool
}

// File is an input or output file of a program.
type File = surfaces.File

// Sink receives the program's output, as it is written, and its events of the kinds notify,
// display and notice. Its methods must be safe for concurrent use, return quickly, and not
// keep their arguments.
type Sink = surfaces.Sink
