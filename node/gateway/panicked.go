package gateway

import (
	"fmt"
	"runtime/debug"
)

// panicked is a panic on its way to the log.
type panicked struct {
	value any
	stack string
}

// newPanicked is called while recovering, when the stack still shows the place.
func newPanicked(p any) *panicked { return &panicked{value: p, stack: string(debug.Stack())} }

// Error gives the value and the stack, which never leave the log.
func (p *panicked) Error() string { return fmt.Sprintf("panic: %v\n%s", p.value, p.stack) }
