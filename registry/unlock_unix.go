//go:build linux || darwin

package registry

import (
	"os"
	"syscall"
)

// unlock drops the lock on a file even while a memory map of it remains.
func unlock(file *os.File) error { return syscall.Flock(int(file.Fd()), syscall.LOCK_UN) }
