//go:build unix

package settings

import (
	"os"

	"golang.org/x/sys/unix"
)

// errHeld is the error of a file that another process holds.
const errHeld = unix.EWOULDBLOCK

// hold takes a file until it is closed.
func hold(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }
