//go:build unix

package agentlink

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock takes the lock of an open file, which ends with the process at the latest.
func lock(file *os.File) error {
	err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}
