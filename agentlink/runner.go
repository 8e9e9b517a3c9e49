package agentlink

import (
	"context"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// Program is one stateless program for this machine. It has the form of a
// oneshot.Request.
type Program struct {
	CallID   string
	Language string
	Code     string
	Stdin    string
	// Timeout is counted from the call of Run. Whole is what the caller has given, some of
	// which is over by then, for messages; 0 is the same as Timeout.
	Timeout, Whole time.Duration
	// Files are placed in the program's folder.
	Files []surfaces.File
	// Primitives says that the program may ask its host.
	Primitives bool
}

// Runner runs programs on this machine. Its methods may be called at the same time.
type Runner interface {
	// Languages lists what the machine has.
	Languages(ctx context.Context) []string
	// Run runs a program to its end, which the result tells. It stops it when ctx ends,
	// with no time to heed that where the cause is surfaces.ErrNoGrace, and enforces the
	// deadline itself.
	Run(ctx context.Context, p Program, sink surfaces.Sink, host surfaces.Host) surfaces.Result
}
