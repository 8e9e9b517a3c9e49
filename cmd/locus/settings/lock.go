package settings

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// lockFile is locked by the node that runs on a data directory.
const lockFile = "up.lock"

// LockedError says that another node runs on the data directory.
type LockedError struct {
	Dir string
	// PID is the process that holds the lock; 0 if unknown.
	PID int
}

// Error returns a message for users.
func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("a node runs on %s already", e.Dir)
	}
	return fmt.Sprintf("a node runs on %s already, as process %d", e.Dir, e.PID)
}

// Lock creates the data directory, with mode 0700, and locks it until release is called or
// the process ends. The error is *LockedError if another process holds the lock.
func Lock(dir string) (release func() error, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := hold(f); err != nil {
		defer f.Close()
		if errors.Is(err, errHeld) {
			return nil, &LockedError{Dir: dir, PID: holder(f)}
		}
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	if err := sign(f); err != nil {
		f.Close()
		return nil, err
	}
	return f.Close, nil
}

// sign writes this process's pid into the lock file.
func sign(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

func holder(f *os.File) int {
	text, err := io.ReadAll(io.LimitReader(f, 32))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return pid
}
