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
	// Timeout is counted from the call of Run. CallTimeout is the call's original timeout_s,
	// which error messages name; 0 means the same as Timeout.
	Timeout, CallTimeout time.Duration
	// Files are placed in the program's folder.
	Files []surfaces.File
	// Primitives allows the program to use its host's primitives.
	Primitives bool
}

// Runner runs programs on this machine. Its methods must be safe for concurrent use.
type Runner interface {
	// Languages lists the languages that the machine has.
	Languages(ctx context.Context) []string
	// Run runs a program until it ends, and returns the result. It enforces the deadline,
	// and stops the program when ctx ends: with an interrupt first, or at once if the cause
	// is surfaces.ErrNoGrace.
	Run(ctx context.Context, p Program, sink surfaces.Sink, host surfaces.Host) surfaces.Result
}
