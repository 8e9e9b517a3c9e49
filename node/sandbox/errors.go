package sandbox

import (
	"errors"
	"os"
)

// errClosed is given by everything that is asked of a closed container or group.
var errClosed = errors.New("sandbox: closed")

// errDeadline is what a wait of this package ends with when its time is over.
var errDeadline = os.ErrDeadlineExceeded

// ErrFrozen is given for a command that shall start in a frozen group: it could
// not begin, and its keeper would wait for it.
var ErrFrozen = errors.New("sandbox: the group is frozen")
