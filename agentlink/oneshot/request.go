package oneshot

import (
	"time"

	"github.com/locusrun/locus/surfaces"
)

// Request is one stateless program for this machine.
type Request struct {
	CallID string
	// Language is one of those that Languages gives.
	Language string
	Code     string
	// Stdin is what the code reads before end-of-file.
	Stdin string
	// Timeout is counted from the call of Run. Whole is what the caller has given, some of
	// which is over by then, for messages; 0 is the same as Timeout.
	Timeout, Whole time.Duration
	// Files are placed in the code's folder.
	Files []File
	// Primitives says that the code may ask its host. Without it every request is
	// answered as unavailable.
	Primitives bool
}

// File is a file that comes with a program, or is left by it.
type File = surfaces.File

// Sink takes what the program says while it runs: output as it is written, and events
// of the kinds notify, display and notice. Its methods may be called at the same time,
// must return quickly, and must not keep what they are given.
type Sink = surfaces.Sink
