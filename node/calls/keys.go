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

// Keys remembers which idempotency keys were used, on disk, so that a restart of
// the node does not make a call run twice. A key is written down before its call
// starts. Its methods may be called at the same time.
type Keys struct {
	db *bolt.DB

	mu      sync.Mutex
	running map[string]*Record       // by name, which is of actor and key
	taken   map[string]chan struct{} // names that are being looked up, closed when that is over
}

// entry is one key on disk. Result is nil while its call has not ended.
type entry struct {
	Digest []byte           `json:"digest"`
	CallID string           `json:"call_id"`
	At     time.Time        `json:"at"`
	Result *surfaces.Result `json:"result"`
}

var bucketKeys = []byte("keys")

// OpenKeys opens the file, making it when it is not there, and drops keys that
// are too old.
func OpenKeys(path string) (*Keys, error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: 5 * time.Second})
	if err != nil {
		return nil, fmt.Errorf("calls: open the idempotency keys: %w", err)
	}
	k := &Keys{db: db, running: make(map[string]*Record), taken: make(map[string]chan struct{})}
	if err := k.Sweep(time.Now()); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return k, nil
}

// Close closes the file.
func (k *Keys) Close() error { return k.db.Close() }

// Sweep drops the keys that are older than surfaces.KeyLife.
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

// Use takes a key for a call that is about to start, or gives the call that had
// it before: running, ended, or cut off by a restart. begin makes the record and
// is called only for a new key; its error is given back and the key stays unused.
// Who comes with the same key meanwhile waits for that, at most until ctx ends; who
// comes with another does not. A key that was used with other arguments is refused.
func (k *Keys) Use(ctx context.Context, actor, key string, digest []byte, node string, begin func() (*Record, error)) (r *Record, fresh bool, err error) {
	name := nameOf(actor, key)
	r, free, err := k.take(ctx, name)
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
			r = remembered(actor, node, e)
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

// take keeps others from using a name until it is freed, and gives the call that runs
// under it, if there is one. Only names are held, never the lock, while the registry or
// the disk is asked.
func (k *Keys) take(ctx context.Context, name string) (running *Record, free func(), err error) {
	for {
		k.mu.Lock()
		freed, taken := k.taken[name]
		if !taken {
			freed = make(chan struct{})
			k.taken[name] = freed
			running = k.running[name]
			k.mu.Unlock()
			return running, func() {
				k.mu.Lock()
				defer k.mu.Unlock()
				delete(k.taken, name)
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

// Ended writes down the result of a call that was started under a key.
func (k *Keys) Ended(actor, key string, digest []byte, r *Record) error {
	res := r.Result()
	name := nameOf(actor, key)
	err := k.write(name, entry{Digest: digest, CallID: r.ID, At: r.Started, Result: &res})
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.running, name) // what comes from now on finds the result on the disk
	return err
}

// read gives what is known of a name; nil for nothing.
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

// remembered is the record of a call of which only the entry is left.
func remembered(actor, node string, e *entry) *Record {
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
