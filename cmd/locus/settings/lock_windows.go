package settings

import (
	"os"

	"golang.org/x/sys/windows"
)

// errHeld is the error if another process holds the lock.
const errHeld = windows.ERROR_LOCK_VIOLATION

// hold locks a file until it is closed. It locks a byte far beyond the content, because on
// Windows others cannot read locked bytes.
func hold(f *os.File) error {
	far := &windows.Overlapped{OffsetHigh: 1}
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, far)
}
