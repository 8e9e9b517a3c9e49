package calls

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/locusrun/locus/surfaces"
)

// Bounds on the results that are kept under idempotency keys, in bytes. How many keys an actor
// has is up to the registry: see registry.MaxKeys.
const (
	KeyedBytes    = 64 << 20 // of one actor
	AllKeyedBytes = 1 << 30
)

// Keys remembers on disk which idempotency keys were used, so that a call is not run twice
// after a restart of the node. A key is written before its call starts, and stays for
// surfaces.KeyLife. Its result stays as long as there is room for it. Keys is safe for
// concurrent use.
type Keys struct {
	db      *bolt.DB
	results keptResults // changed in write transactions only, of which bbolt runs one at a time

	mu      sync.Mutex
	running map[string]*Record       // by name
	locked  map[string]chan struct{} // names in use by a call of Use; closed when it is done
}

// Key is an idempotency key of an actor, and the digest of the arguments that it is used with.
type Key struct {
	Actor string
	// ActorID keeps the keys of an ended actor from the next one of the same name.
	ActorID string
	// Text is the idempotency key as the caller sent it.
	Text string
	// Digest is that of the call's arguments, to tell a repetition from another call.
	Digest []byte
}

func (k Key) name() string { return k.ActorID + "\x00" + k.Text }

// entry is a key on disk. Its result is in a bucket of its own, so that the keys can be read
// without the results.
type entry struct {
	// Digest is that of the call's arguments.
	Digest []byte `json:"digest"`
	CallID string `json:"call_id"`
	// At is when the call started; the entry is kept for surfaces.KeyLife from then on.
	At time.Time `json:"at"`
	// Ended says that the call's outcome is known.
	Ended bool `json:"ended,omitempty"`
	// Bytes is the size of the result; 0 before it is there, and after it was dropped.
	Bytes int `json:"bytes,omitempty"`
}

func (e entry) expired(now time.Time) bool { return now.Sub(e.At) > surfaces.KeyLife }

var bucketKeys, bucketResults = []byte("keys"), []byte("results")

// OpenKeys opens or creates the file, and removes expired keys.
func OpenKeys(path string) (*Keys, error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: 5 * time.Second})
	if err != nil {
		return nil, fmt.Errorf("calls: open the idempotency keys: %w", err)
	}
	k := &Keys{
		db: db, running: make(map[string]*Record), locked: make(map[string]chan struct{}),
		results: keptResults{perActor: KeyedBytes, all: AllKeyedBytes},
	}
	if err := k.Sweep(time.Now()); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return k, nil
}

// Close closes the file.
func (k *Keys) Close() error { return k.db.Close() }

// Sweep removes the keys that are older than surfaces.KeyLife.
func (k *Keys) Sweep(now time.Time) error {
	return k.db.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(bucketKeys)
		if err != nil {
			return err
		}
		results, err := tx.CreateBucketIfNotExists(bucketResults)
		if err != nil {
			return err
		}
		var old [][]byte
		k.results.reset()
		err = b.ForEach(func(name, v []byte) error {
			var e entry
			switch err := json.Unmarshal(v, &e); {
			case err != nil || e.expired(now):
				old = append(old, bytes.Clone(name))
			case e.Bytes > 0:
				k.results.add(string(name), e.At, e.Bytes)
			}
			return nil
		})
		for _, name := range old {
			err = errors.Join(err, b.Delete(name), results.Delete(name))
		}
		k.results.sort()
		return err
	})
}

// Use binds a key to a call that is about to start, or returns the call that used it before:
// running, ended, or interrupted by a restart. begin creates the record, and is called only
// for a new key; if it fails, the key stays unused and its error is returned. Concurrent
// calls with the same key wait for this, at most until ctx ends. A key that was used with
// other arguments is refused.
func (k *Keys) Use(ctx context.Context, key Key, node string, begin func() (*Record, error)) (r *Record, fresh bool, err error) {
	name := key.name()
	r, free, err := k.lock(ctx, name)
	if err != nil {
		return nil, false, err
	}
	defer free()
	e, res, err := k.read(name)
	switch {
	case err != nil:
		return nil, false, err
	case e != nil && !e.expired(time.Now()):
		if !bytes.Equal(e.Digest, key.Digest) {
			return nil, false, surfaces.KeyReused(key.Text)
		}
		if r == nil {
			r = recordOf(key.Actor, node, e, res)
		}
		return r, false, nil
	}
	if r, err = begin(); err != nil {
		return nil, false, err
	}
	if err := k.write(name, entry{Digest: key.Digest, CallID: r.ID, At: time.Now()}, nil); err != nil {
		return r, false, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.running[name] = r
	return r, true, nil
}

// Kept returns the call of a key, as Use returns it to a second call; nil if this node did not
// start the call with that id for the key. It waits for a call that is about to start.
func (k *Keys) Kept(ctx context.Context, key Key, callID, node string) (*Record, error) {
	name := key.name()
	r, free, err := k.lock(ctx, name)
	if err != nil {
		return nil, err
	}
	defer free()
	if r != nil && r.ID == callID {
		return r, nil
	}
	e, res, err := k.read(name)
	if err != nil || e == nil || e.CallID != callID {
		return nil, err
	}
	return recordOf(key.Actor, node, e, res), nil
}

// lock keeps others from using a name until free is called, and returns the running call of
// that name, if any. The mutex is not held meanwhile, so that a slow registry or disk does
// not block other names.
func (k *Keys) lock(ctx context.Context, name string) (running *Record, free func(), err error) {
	for {
		k.mu.Lock()
		freed, taken := k.locked[name]
		if !taken {
			freed = make(chan struct{})
			k.locked[name] = freed
			running = k.running[name]
			k.mu.Unlock()
			return running, func() {
				k.mu.Lock()
				defer k.mu.Unlock()
				delete(k.locked, name)
				close(freed)
			}, nil
		}
		k.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
				return nil, nil, cause
			}
			return nil, nil, &surfaces.Refusal{Code: surfaces.CodeStopped, Message: "the caller has gone while another call was beginning under its idempotency_key; nothing ran for it"}
		}
	}
}

// Ended stores the result of a call that was started with a key.
func (k *Keys) Ended(key Key, r *Record) error {
	name := key.name()
	result, err := json.Marshal(r.Result())
	if err != nil {
		err = fmt.Errorf("calls: write the result of an idempotency key: %w", err)
	} else {
		err = k.write(name, entry{Digest: key.Digest, CallID: r.ID, At: r.Started, Ended: true, Bytes: len(result)}, result)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.running, name) // from now on the result is found on disk
	return err
}

// read returns the entry of a name, and its result if that is kept; nil if there is none.
func (k *Keys) read(name string) (e *entry, res *surfaces.Result, err error) {
	err = k.db.View(func(tx *bolt.Tx) error {
		v := tx.Bucket(bucketKeys).Get([]byte(name))
		if v == nil {
			return nil
		}
		e = new(entry)
		if err := json.Unmarshal(v, e); err != nil || e.Bytes == 0 {
			return err
		}
		return json.Unmarshal(tx.Bucket(bucketResults).Get([]byte(name)), &res)
	})
	if err != nil {
		return nil, nil, fmt.Errorf("calls: read an idempotency key: %w", err)
	}
	return e, res, nil
}

// write stores an entry and its result, if there is one, and drops older results to make room.
func (k *Keys) write(name string, e entry, result []byte) error {
	err := k.db.Update(func(tx *bolt.Tx) error {
		if err := put(tx, name, e); err != nil || result == nil {
			return err
		}
		if err := tx.Bucket(bucketResults).Put([]byte(name), result); err != nil {
			return err
		}
		k.results.add(name, e.At, len(result))
		for _, old := range k.results.excess() {
			if err := dropResult(tx, old); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("calls: write an idempotency key: %w", err)
	}
	return nil
}

func put(tx *bolt.Tx, name string, e entry) error {
	v, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return tx.Bucket(bucketKeys).Put([]byte(name), v)
}

// dropResult removes the result of a key. The key stays.
func dropResult(tx *bolt.Tx, name string) error {
	var e entry
	if err := json.Unmarshal(tx.Bucket(bucketKeys).Get([]byte(name)), &e); err != nil {
		return err
	}
	e.Bytes = 0
	return errors.Join(put(tx, name, e), tx.Bucket(bucketResults).Delete([]byte(name)))
}

// recordOf makes the record of a call of which only what is on disk is left.
func recordOf(actor, node string, e *entry, res *surfaces.Result) *Record {
	r := &Record{ID: e.CallID, Actor: actor, Started: e.At, placed: make(chan struct{}), done: make(chan struct{}), stop: func() {}}
	r.ended = true
	at := surfaces.Partial{CallID: e.CallID, Node: node, Attempts: 1}
	switch {
	case res != nil:
		r.result = *res
	case e.Ended:
		r.result = surfaces.Failed(at, surfaces.CodeOutcomeUnknown,
			"the call that this idempotency_key stands for has ended, and its result had to make room for those of later calls; nothing was run again")
	default:
		r.result = surfaces.Failed(at, surfaces.CodeOutcomeUnknown,
			"the call had started when its node was restarted, and whether it finished is not known; nothing was run again")
	}
	close(r.done)
	return r
}
