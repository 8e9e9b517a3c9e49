package registry

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"
	bberrors "go.etcd.io/bbolt/errors"
)

var (
	bucketLog    = []byte("log")
	bucketStable = []byte("stable")
	bucketOwn    = []byte("own") // the directory's owner and marks of this package
	keyNode      = []byte("node")
	keyBegan     = []byte("began")
	keyRecovered = []byte("recovered")
)

// lockWait is how long opening waits for another process to release the file lock.
const lockWait = 500 * time.Millisecond

// store keeps the log, and raft's term and vote, in one bbolt file. Every change is synced
// to disk when the call returns.
//
// raft writes the term of a vote and its candidate in two calls, which cannot share a
// transaction. It writes the term first and answers only after both. A crash between them
// leaves the new term with the candidate of an older one; in the new term this node can then
// vote for that candidate or not at all, so it never votes twice.
//
// After a failed write the store refuses all further writes: it is unknown what a failed
// sync left on disk, and a later success would hide that.
type store struct {
	db *bbolt.DB

	mu     sync.Mutex
	failed atomic.Pointer[error] // written under mu; read without it, to not wait for a sync
}

var (
	_ raft.LogStore          = (*store)(nil)
	_ raft.StableStore       = (*store)(nil)
	_ raft.MonotonicLogStore = (*store)(nil)
)

// openStore opens or creates the file and reads everything in it once, so that a torn or
// overwritten file is ErrDamaged here instead of a crash later. (bbolt's own Check does more,
// but may panic on a goroutine of its own, where the panic cannot be recovered.)
func openStore(path string) (s *store, err error) {
	// bbolt reads through a memory map. If the file is shorter than its pages claim, a read
	// faults; this turns the fault into a panic that can be recovered.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	var file *os.File
	var db *bbolt.DB
	defer func() {
		if fault := recover(); fault != nil {
			s, err = nil, errors.Join(fmt.Errorf("%w: %s: %v", ErrDamaged, path, fault), abandon(db, file))
		}
	}()
	db, err = bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout:      lockWait,
		FreelistType: bbolt.FreelistMapType,
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			f, err := os.OpenFile(name, flag, mode)
			file = f
			return f, err
		},
	})
	switch {
	case errors.Is(err, bberrors.ErrTimeout):
		return nil, fmt.Errorf("%w: %s", ErrLocked, path)
	case errors.As(err, new(*fs.PathError)), errors.As(err, new(syscall.Errno)):
		return nil, fmt.Errorf("registry: open %s: %w", path, err) // an I/O error, not damaged content
	case err != nil:
		return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
	}
	s = &store{db: db}
	if err := s.prepare(); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %s: %w", ErrDamaged, path, err), db.Close())
	}
	return s, nil
}

// abandon closes a file whose content made bbolt panic. If it panicked while opening, the
// memory map is leaked, and the file lock would stay with it; so the lock is released
// explicitly.
func abandon(db *bbolt.DB, file *os.File) error {
	switch {
	case db != nil:
		return db.Close()
	case file != nil:
		return errors.Join(unlock(file), file.Close())
	}
	return nil
}

// prepare creates the buckets of a new file, and verifies an existing one.
func (s *store) prepare() error {
	fresh := false
	err := s.db.View(func(tx *bbolt.Tx) error {
		there := 0
		for _, name := range [][]byte{bucketLog, bucketStable, bucketOwn} {
			if tx.Bucket(name) != nil {
				there++
			}
		}
		switch there {
		case 0:
			fresh = true
			return nil
		case 3:
		default:
			return fmt.Errorf("it has %d of 3 parts", there)
		}
		return errors.Join(verifyLog(tx.Bucket(bucketLog)),
			verifyValues(tx.Bucket(bucketStable)), verifyValues(tx.Bucket(bucketOwn)))
	})
	if err != nil || !fresh {
		return err
	}
	return s.db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{bucketLog, bucketStable, bucketOwn} {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		return nil
	})
}

// verifyLog checks that every entry is intact and that there are no gaps.
func verifyLog(b *bbolt.Bucket) error {
	var before uint64
	return b.ForEach(func(key, value []byte) error {
		if len(key) != 8 {
			return fmt.Errorf("a key of the log has %d bytes", len(key))
		}
		index := binary.BigEndian.Uint64(key)
		if before != 0 && index != before+1 {
			return fmt.Errorf("entry %d of the log follows entry %d", index, before)
		}
		before = index
		var entry raft.Log
		return decodeEntry(value, index, &entry)
	})
}

// update runs one synced transaction, unless an earlier one failed.
func (s *store) update(change func(*bbolt.Tx) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.healthy(); err != nil {
		return err
	}
	if err := s.db.Update(change); err != nil {
		err = fmt.Errorf("registry: the log cannot be written: %w", err)
		s.failed.Store(&err)
		return err
	}
	return nil
}

// healthy returns the failure after which the store refuses writes, or nil.
func (s *store) healthy() error {
	if failed := s.failed.Load(); failed != nil {
		return *failed
	}
	return nil
}

// Close waits for running transactions and closes the file.
func (s *store) Close() error { return s.db.Close() }

// node returns the node that the file belongs to; "" for a new file.
func (s *store) node() (NodeID, error) {
	id, err := s.own(keyNode)
	return NodeID(id), err
}

func (s *store) setNode(id NodeID) error { return s.setOwn(keyNode, []byte(id)) }

// began reports whether the file has ever held the state of a cluster.
func (s *store) began() (bool, error) {
	mark, err := s.own(keyBegan)
	return len(mark) > 0, err
}

func (s *store) setBegan() error { return s.setOwn(keyBegan, []byte{1}) }

func (s *store) own(key []byte) (value []byte, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		value, err = openValue(key, tx.Bucket(bucketOwn).Get(key))
		return err
	})
	return value, err
}

// recovered reports whether a disaster recovery has yet to be announced.
func (s *store) recovered() (bool, error) {
	mark, err := s.own(keyRecovered)
	return len(mark) > 0, err
}

func (s *store) setRecovered(is bool) error {
	if is {
		return s.setOwn(keyRecovered, []byte{1})
	}
	return s.setOwn(keyRecovered, nil)
}

func (s *store) setOwn(key, value []byte) error {
	return s.update(func(tx *bbolt.Tx) error { return tx.Bucket(bucketOwn).Put(key, sealValue(key, value)) })
}
