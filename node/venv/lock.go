package venv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// How a lock is held.
const (
	lockShared = unix.LOCK_SH
	lockAlone  = unix.LOCK_EX
)

// fileLock is an advisory lock on a file, which ends with its process at the latest.
type fileLock struct{ f *os.File }

// tryLock takes the lock of a path when it is free: shared with others who share
// it, or alone. It gives nil when it is not free.
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
		// Who held it before may have removed the file: then this is a lock on nothing.
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

// lockEvery is how often a lock that another process holds is tried again. Nothing
// tells when it becomes free.
const lockEvery = 50 * time.Millisecond

// waitLock takes the lock of a path alone, and waits for it. busy is called once
// when there is something to wait for.
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

// release gives the lock back. Closing the file is what ends it.
func (l *fileLock) release() { l.f.Close() }

// remove gives a lock that is held alone back, and its file away.
func (l *fileLock) remove() error {
	defer l.release()
	if err := os.Remove(l.f.Name()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("venv: remove a lock: %w", err)
	}
	return nil
}
