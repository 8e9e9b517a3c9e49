package chaos

import (
	"fmt"
	"time"
)

// Bounds and defaults of a run.
const (
	DefaultNodes = 3
	MostNodes    = 9
	DefaultFor   = time.Minute
	// DefaultSlack is how much later than promised an answer may come by default: the
	// promise is for a machine that has time for its nodes.
	DefaultSlack = 5 * time.Second
)

// StoredPattern fits the folders of a run in which its nodes store what is theirs.
const StoredPattern = "node-*[0-9]"

// Options say what a run does.
type Options struct {
	// Program is the path of locus, of which all nodes are made.
	Program string
	// Dir is an empty folder for the history, and for the nodes' data and logs.
	Dir string
	// Version is written into the history.
	Version string
	// Nodes is how many there are, 2 to MostNodes.
	Nodes int
	// For is for how long faults come. The run takes longer: for its start, for the fault
	// that is on at the end, and for seeing that all is well again.
	For time.Duration
	// Seed draws the faults and the calls.
	Seed uint64
	// Fast starts the nodes with --fast.
	Fast bool
	// Faults are the kinds to choose from.
	Faults []Kind
	// Slack is how much later than promised an answer may come.
	Slack time.Duration
	// Say is told of what happens, in lines for people.
	Say func(format string, args ...any)
}

// Check says what is wrong with options.
func (o Options) Check() error {
	switch {
	case o.Nodes < 2 || o.Nodes > MostNodes:
		return fmt.Errorf("%d nodes: a run has 2 to %d", o.Nodes, MostNodes)
	case o.For <= 0:
		return fmt.Errorf("faults for %s: it must be more than nothing", o.For)
	case o.Slack < 0:
		return fmt.Errorf("a slack of %s: it cannot be negative", o.Slack)
	case len(o.Faults) == 0:
		return fmt.Errorf("no kind of fault is given")
	}
	return nil
}
