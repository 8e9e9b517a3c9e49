package gateway

import (
	"fmt"
	"runtime/debug"
)

// panicked is a recovered panic as an error for the log.
type panicked struct {
	value any // what recover returned
	stack string
}

// newPanicked must be called while recovering, so that the stack shows the place.
func newPanicked(p any) *panicked { return &panicked{value: p, stack: string(debug.Stack())} }

// Error returns the value and the stack. It is only for the log.
func (p *panicked) Error() string { return fmt.Sprintf("panic: %v\n%s", p.value, p.stack) }
