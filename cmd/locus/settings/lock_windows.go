package settings

import (
	"os"

	"golang.org/x/sys/windows"
)

// errHeld is the error of a file that another process holds.
const errHeld = windows.ERROR_LOCK_VIOLATION

// hold takes a file until it is closed. What is locked is a byte far behind its text,
// since others may not even read what is locked.
func hold(f *os.File) error {
	far := &windows.Overlapped{OffsetHigh: 1}
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, far)
}
