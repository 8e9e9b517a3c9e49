package sandbox

import (
	"errors"
	"os"
)

// errClosed is the error of every operation on a closed container or group.
var errClosed = errors.New("sandbox: closed")

// errDeadline is the error of a wait in this package that has timed out.
var errDeadline = os.ErrDeadlineExceeded

// ErrFrozen is the error of a Spawn into a frozen group: the process could not start, and
// the keeper would wait for it.
var ErrFrozen = errors.New("sandbox: the group is frozen")
