//go:build unix

package settings

import (
	"os"

	"golang.org/x/sys/unix"
)

// errHeld is the error if another process holds the lock.
const errHeld = unix.EWOULDBLOCK

// hold locks a file until it is closed.
func hold(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }
