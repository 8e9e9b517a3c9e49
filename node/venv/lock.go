package venv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// The modes of a lock.
const (
	lockShared = unix.LOCK_SH
	lockAlone  = unix.LOCK_EX
)

// fileLock is an advisory lock on a file. It is released at the end of the process at the
// latest.
type fileLock struct{ f *os.File }

// tryLock takes the lock of a path, shared or exclusive. It returns nil if the lock is not
// free.
func tryLock(path string, how int) (*fileLock, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, fmt.Errorf("venv: open a lock: %w", err)
		}
		if err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); err != nil {
			f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, nil
			}
			return nil, fmt.Errorf("venv: lock %s: %w", path, err)
		}
		// The previous owner may have removed the file before we locked it. Then nobody else
		// sees our lock, so try again.
		mine, err := f.Stat()
		if err == nil {
			var there os.FileInfo
			if there, err = os.Stat(path); err == nil && os.SameFile(mine, there) {
				return &fileLock{f}, nil
			}
		}
		f.Close()
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("venv: lock %s: %w", path, err)
		}
	}
}

// lockEvery is the interval at which a lock of another process is tried again: flock has no
// wait with a deadline.
const lockEvery = 50 * time.Millisecond

// waitLock waits for the exclusive lock of a path. It calls busy once if it has to wait.
func waitLock(ctx context.Context, path string, busy func()) (*fileLock, error) {
	return waitFor(ctx, path, lockAlone, busy)
}

func waitFor(ctx context.Context, path string, how int, busy func()) (*fileLock, error) {
	l, err := tryLock(path, how)
	if l != nil || err != nil {
		return l, err
	}
	busy()
	tick := time.NewTicker(lockEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
		if l, err := tryLock(path, how); l != nil || err != nil {
			return l, err
		}
	}
}

// release releases the lock, by closing its file.
func (l *fileLock) release() { l.f.Close() }

// remove releases an exclusive lock and removes its file.
func (l *fileLock) remove() error {
	defer l.release()
	if err := os.Remove(l.f.Name()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("venv: remove a lock: %w", err)
	}
	return nil
}
