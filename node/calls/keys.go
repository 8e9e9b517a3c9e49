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

// Keys remembers on disk which idempotency keys were used, so that a call is not run twice
// after a restart of the node. A key is written before its call starts. Keys is safe for
// concurrent use.
type Keys struct {
	db *bolt.DB

	mu      sync.Mutex
	running map[string]*Record       // by nameOf(actor, key)
	locked  map[string]chan struct{} // names in use by a call of Use; closed when it is done
}

// entry is a key on disk. Result is nil until its call has ended.
type entry struct {
	Digest []byte           `json:"digest"`
	CallID string           `json:"call_id"`
	At     time.Time        `json:"at"`
	Result *surfaces.Result `json:"result"`
}

var bucketKeys = []byte("keys")

// OpenKeys opens or creates the file, and removes expired keys.
func OpenKeys(path string) (*Keys, error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: 5 * time.Second})
	if err != nil {
		return nil, fmt.Errorf("calls: open the idempotency keys: %w", err)
	}
	k := &Keys{db: db, running: make(map[string]*Record), locked: make(map[string]chan struct{})}
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
		var old [][]byte
		err = b.ForEach(func(name, v []byte) error {
			var e entry
			if err := json.Unmarshal(v, &e); err != nil || now.Sub(e.At) > surfaces.KeyLife {
				old = append(old, bytes.Clone(name))
			}
			return nil
		})
		for _, name := range old {
			err = errors.Join(err, b.Delete(name))
		}
		return err
	})
}

func nameOf(actor, key string) string { return actor + "\x00" + key }

// Use binds a key to a call that is about to start, or returns the call that used it before:
// running, ended, or interrupted by a restart. begin creates the record, and is called only
// for a new key; if it fails, the key stays unused and its error is returned. Concurrent
// calls with the same key wait for this, at most until ctx ends. A key that was used with
// other arguments is refused.
func (k *Keys) Use(ctx context.Context, actor, key string, digest []byte, node string, begin func() (*Record, error)) (r *Record, fresh bool, err error) {
	name := nameOf(actor, key)
	r, free, err := k.lock(ctx, name)
	if err != nil {
		return nil, false, err
	}
	defer free()
	e, err := k.read(name)
	switch {
	case err != nil:
		return nil, false, err
	case e != nil && time.Since(e.At) <= surfaces.KeyLife:
		if !bytes.Equal(e.Digest, digest) {
			return nil, false, surfaces.KeyReused(key)
		}
		if r == nil {
			r = recordOf(actor, node, e)
		}
		return r, false, nil
	}
	if r, err = begin(); err != nil {
		return nil, false, err
	}
	if err := k.write(name, entry{Digest: digest, CallID: r.ID, At: time.Now()}); err != nil {
		return r, false, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.running[name] = r
	return r, true, nil
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
func (k *Keys) Ended(actor, key string, digest []byte, r *Record) error {
	res := r.Result()
	name := nameOf(actor, key)
	err := k.write(name, entry{Digest: digest, CallID: r.ID, At: r.Started, Result: &res})
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.running, name) // from now on the result is found on disk
	return err
}

// read returns the entry of a name; nil if there is none.
func (k *Keys) read(name string) (e *entry, err error) {
	err = k.db.View(func(tx *bolt.Tx) error {
		v := tx.Bucket(bucketKeys).Get([]byte(name))
		if v == nil {
			return nil
		}
		e = new(entry)
		return json.Unmarshal(v, e)
	})
	if err != nil {
		return nil, fmt.Errorf("calls: read an idempotency key: %w", err)
	}
	return e, nil
}

func (k *Keys) write(name string, e entry) error {
	v, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("calls: write an idempotency key: %w", err)
	}
	err = k.db.Update(func(tx *bolt.Tx) error { return tx.Bucket(bucketKeys).Put([]byte(name), v) })
	if err != nil {
		return fmt.Errorf("calls: write an idempotency key: %w", err)
	}
	return nil
}

// recordOf makes the record of a call of which only the entry on disk is left.
func recordOf(actor, node string, e *entry) *Record {
	r := &Record{ID: e.CallID, Actor: actor, Started: e.At, placed: make(chan struct{}), done: make(chan struct{}), stop: func() {}}
	r.ended = true
	if e.Result != nil {
		r.result = *e.Result
	} else {
		r.result = surfaces.Failed(surfaces.Partial{CallID: e.CallID, Node: node, Attempts: 1}, surfaces.CodeOutcomeUnknown,
			"the call had started when its node was restarted, and whether it finished is not known; nothing was run again")
	}
	close(r.done)
	return r
}
