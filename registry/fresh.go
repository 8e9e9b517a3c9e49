package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/hashicorp/raft"
)

// Fresh is a linearizable read: the view that it returns contains every change that was
// acknowledged on any node before Fresh was called. It asks the leader, which asks a majority
// of the voters; concurrent reads share these questions. Its errors are ErrUnavailable and
// ErrNoQuorum. Calls are routed without it, because a session's owner rejects what was
// decided on an outdated View.
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

// noEffect turns a maybeApplied of an operation that changes nothing into an ErrUnavailable.
func noEffect(err error) error {
	if cause := (maybeApplied{}); errors.As(err, &cause) {
		return fmt.Errorf("%w: %w", ErrUnavailable, cause.error)
	}
	return err
}

// readIndex is the answer to an opReadIndex: the index that must be applied before the read.
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

// confirmation is one check that this node still leads, shared by all callers that wait.
type confirmation struct {
	done chan struct{} // closed once view or err is set
	view View
	err  error
}

// confirmer runs one confirmation at a time. A caller that comes during one waits for the
// next, because the one in progress may have begun too early for it.
type confirmer struct {
	mu      sync.Mutex
	running bool          // a confirmation is under way
	next    *confirmation // the one after it, which new readers share; nil while nobody waits
	// rest cancels the questions whose answers were no longer needed. Only the running
	// confirmation uses it.
	rest context.CancelFunc
}

// errNotLeading is raft.ErrNotLeader for a node whose term has passed.
var errNotLeading = fmt.Errorf("registry: the term has passed: %w", raft.ErrNotLeader)

// confirm returns a view that is as fresh as Fresh promises, if this node is the leader at
// some moment after confirm was called.
func (r *Registry) confirm(ctx context.Context) (View, error) {
	r.confirmer.mu.Lock()
	c := r.confirmer.next
	if c == nil {
		c = &confirmation{done: make(chan struct{})}
		r.confirmer.next = c
	}
	if !r.confirmer.running {
		if err := r.retain(); err != nil {
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

// confirmAll runs confirmations until no caller waits for one.
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
		c.view, c.err = r.confirmWith(r.confirmQuorum)
		close(c.done)
	}
}

// confirmWith does the steps of a linearizable read in the order that makes it correct.
// First, the barrier of the term must have been applied: before, the commit index may be
// that of an earlier leader. Second, the commit index is read before the quorum is asked:
// another leader can commit only after a majority has left this one, and then the quorum
// would not confirm.
func (r *Registry) confirmWith(quorum func(term uint64) error) (View, error) {
	ready, _ := r.lead.state()
	if ready.term == 0 {
		return View{}, errNotLeading
	}
	commit := r.raft.CommitIndex()
	if err := quorum(ready.term); err != nil {
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
