package chaos

import (
	"fmt"
	"time"
)

// Limits and defaults of a run.
const (
	DefaultNodes = 3
	MaxNodes     = 9
	DefaultFor   = time.Minute
	// DefaultSlack is the default of Options.Slack. The contract's times are for a machine
	// that is not overloaded.
	DefaultSlack = 5 * time.Second
)

// StoredPattern matches the nodes' data directories in the directory of a run.
const StoredPattern = "node-*[0-9]"

// Options configures a run.
type Options struct {
	// Program is the path of locus, which runs all nodes.
	Program string
	// Dir is an empty directory for the history and the nodes' data and logs.
	Dir string
	// Version is written into the history.
	Version string
	// Nodes is the number of nodes, 2 to MaxNodes.
	Nodes int
	// For is how long faults are injected. The run takes longer, for the start, the last
	// fault and the final checks.
	For time.Duration
	// Seed determines the faults and the calls.
	Seed uint64
	// Fast starts the nodes with --fast.
	Fast bool
	// Faults are the kinds of faults to draw from.
	Faults []Kind
	// Slack is how much later than promised an answer may come.
	Slack time.Duration
	// Progress is called with progress messages.
	Progress func(format string, args ...any)
}

// Check returns an error if the options are invalid.
func (o Options) Check() error {
	switch {
	case o.Nodes < 2 || o.Nodes > MaxNodes:
		return fmt.Errorf("%d nodes: a run has 2 to %d", o.Nodes, MaxNodes)
	case o.For <= 0:
		return fmt.Errorf("the duration of faults must be more than zero, not %s", o.For)
	case o.Slack < 0:
		return fmt.Errorf("a slack of %s: it cannot be negative", o.Slack)
	case len(o.Faults) == 0:
		return fmt.Errorf("no kind of fault is given")
	}
	return nil
}
