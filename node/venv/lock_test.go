package venv

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// Lock files are removed by who holds them. Nobody may then hold a lock on a file
// that is not there any more, beside another one on the new file.
func TestRemovedLockFileIsNotALock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var inside atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 40 {
				l, err := waitLock(context.Background(), path, func() {})
				if err != nil {
					t.Error(err)
					return
				}
				if inside.Add(1) != 1 {
					t.Error("two hold the lock")
				}
				inside.Add(-1)
				if err := l.remove(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

func TestAWaitForALockEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	held, err := tryLock(path, lockShared)
	if err != nil || held == nil {
		t.Fatal(held, err)
	}
	defer held.release()
	if l, err := tryLock(path, lockShared); l == nil || err != nil {
		t.Fatal("two cannot share", err)
	} else {
		l.release()
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	if _, err := waitLock(ctx, path, func() { cancel(errAbandoned) }); err != errAbandoned {
		t.Error(err)
	}
}
