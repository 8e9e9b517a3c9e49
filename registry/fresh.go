package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/hashicorp/raft"
)

// Fresh gives a state that holds everything which any node was told before Fresh
// was called. It asks the leader, who asks a majority of the voters; readers that
// come at the same time share that. Its errors are ErrUnavailable and ErrNoQuorum.
// The way of a call does not need it: a session's owner catches decisions that
// were made on an older View.
func (r *Registry) Fresh(ctx context.Context) (View, error) {
	a, err := r.ask(ctx, opReadIndex, nil)
	if err != nil {
		return View{}, noEffect(err)
	}
	var at readIndex
	if err := json.Unmarshal(a.body, &at); err != nil {
		return View{}, fmt.Errorf("%w: %w: %w", ErrUnavailable, errWire, err)
	}
	if err := r.awaitIndex(ctx, at.Index); err != nil {
		return View{}, noEffect(err)
	}
	return r.View(), nil
}

// noEffect turns a maybeDone of something that changes nothing into an
// ErrUnavailable.
func noEffect(err error) error {
	if cause := (maybeDone{}); errors.As(err, &cause) {
		return fmt.Errorf("%w: %w", ErrUnavailable, cause.error)
	}
	return err
}

// readIndex is the answer to an opReadIndex: what must be applied before a read.
type readIndex struct {
	Index uint64 `json:"index"`
}

func (r *Registry) performReadIndex(ctx context.Context) answer {
	v, err := r.confirm(ctx)
	if err != nil {
		return r.failed(err)
	}
	return done(readIndex{v.Index()})
}

// confirmation is one look at whether this node still leads, for all who wait.
type confirmation struct {
	done chan struct{}
	view View
	err  error
}

// confirmer runs one confirmation at a time. Who comes while one is under way
// shares the next: the one under way may have begun too early for it.
type confirmer struct {
	mu      sync.Mutex
	running bool
	next    *confirmation
	// rest ends the asking of the voters who were not waited for. It belongs to the
	// confirmation that runs.
	rest context.CancelFunc
}

// errNotLeading is raft.ErrNotLeader for a node whose term has passed.
var errNotLeading = fmt.Errorf("registry: the term has passed: %w", raft.ErrNotLeader)

// confirm gives a state of this node that is as fresh as Fresh promises, if it
// leads: it led at some moment after confirm was called.
func (r *Registry) confirm(ctx context.Context) (View, error) {
	r.confirmer.mu.Lock()
	c := r.confirmer.next
	if c == nil {
		c = &confirmation{done: make(chan struct{})}
		r.confirmer.next = c
	}
	if !r.confirmer.running {
		if err := r.hold(); err != nil {
			r.confirmer.next = nil
			r.confirmer.mu.Unlock()
			return View{}, err
		}
		r.confirmer.running = true
		go r.confirmAll()
	}
	r.confirmer.mu.Unlock()
	select {
	case <-c.done:
		return c.view, c.err
	case <-ctx.Done():
		return View{}, context.Cause(ctx)
	}
}

// confirmAll runs confirmations until nobody waits.
func (r *Registry) confirmAll() {
	defer r.release()
	for {
		r.confirmer.mu.Lock()
		c := r.confirmer.next
		r.confirmer.next = nil
		r.confirmer.running = c != nil
		r.confirmer.mu.Unlock()
		if c == nil {
			return
		}
		c.view, c.err = r.confirmOnce()
		close(c.done)
	}
}

// confirmOnce is the order that makes a read linearizable. Only after the term's
// barrier is the commit index one of this leader, and all that earlier leaders
// committed applied. The commit index is taken before the majority is asked: what
// another leader commits comes only after a majority has left this one.
func (r *Registry) confirmOnce() (View, error) {
	ready, _ := r.lead.state()
	if ready.term == 0 {
		return View{}, errNotLeading
	}
	commit := r.raft.CommitIndex()
	if err := r.attest(ready.term); err != nil {
		return View{}, err
	}
	if now, _ := r.lead.state(); now != ready || r.raft.CurrentTerm() != ready.term {
		return View{}, errNotLeading
	}
	for {
		v := r.View()
		if max(v.g.applied, ready.barrier) >= commit {
			return v, nil
		}
		select {
		case <-v.Changed():
		case <-r.lead.done:
			return View{}, errClosed
		}
	}
}
