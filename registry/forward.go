package registry

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// maybeDone is a failure after which the leader may have acted.
type maybeDone struct{ error }

func (m maybeDone) Unwrap() error { return m.error }

// persist tries until the leader has answered, for a bounded time: leaderPatience
// while surely nothing was done, three times that when something may have been,
// since then only another try can tell. A try is told which node to ask, if
// another than raft's own leader was named, and whether an earlier try may have
// been done. An error is final: a refusal, an ErrUnavailable, or a maybeDone.
func (r *Registry) persist(ctx context.Context, try func(hint NodeID, resent bool) answer) (answer, error) {
	if err := r.fit(ctx); err != nil {
		return answer{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	began := time.Now()
	var hint NodeID
	var unknown error
	for {
		_, changed := r.lead.state()
		a := try(hint, unknown != nil)
		hint = ""
		switch a.status {
		case statusDone:
			return a, nil
		case statusRefused:
			return a, a.cause
		case statusUnknown:
			unknown = a.cause
		case statusElsewhere:
			if r.config.Forward == nil && unknown == nil {
				return a, &NotLeaderError{Leader: r.otherLeader()}
			}
			if hint = NodeID(a.body); hint == r.dir.owner {
				hint = ""
			}
		}
		bound := leaderPatience
		if unknown != nil {
			bound = 3 * leaderPatience
		}
		if err := r.pause(ctx, changed, bound-time.Since(began)); err != nil {
			return a, r.gaveUp(a, err, unknown)
		}
	}
}

// errPatience ends the wait for a leader.
var errPatience = errors.New("registry: waited long enough")

// pause waits shortly, or until the leadership changes.
func (r *Registry) pause(ctx context.Context, changed <-chan struct{}, left time.Duration) error {
	if err := r.fit(ctx); err != nil {
		return err
	}
	if left <= 0 {
		return errPatience
	}
	timer := time.NewTimer(min(left, retryPause))
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-r.lead.done:
		return errClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// gaveUp gives the error for a request that nobody answered.
func (r *Registry) gaveUp(last answer, why, unknown error) error {
	switch {
	case unknown != nil && !errors.Is(why, errPatience):
		return maybeDone{why}
	case unknown != nil:
		return maybeDone{unknown}
	case !errors.Is(why, errPatience):
		return fmt.Errorf("%w: %w", ErrUnavailable, why)
	case last.status == statusElsewhere, r.otherLeader() == "" && !r.lead.is():
		return ErrNoQuorum
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, last.cause)
}

// otherLeader gives the leader that raft knows of, unless that is this node.
func (r *Registry) otherLeader() NodeID {
	if leader := r.Leader(); leader != r.dir.owner {
		return leader
	}
	return ""
}

// send carries a call to the leader, or to the node that a hint names, once.
func (r *Registry) send(ctx context.Context, hint NodeID, c call) answer {
	to := hint
	if to == "" {
		to = r.otherLeader()
	}
	if to == "" || r.config.Forward == nil {
		return elsewhere(to)
	}
	if err := r.enter(ctx); err != nil {
		return later(err)
	}
	defer r.leave()
	ctx, cancel := context.WithTimeoutCause(ctx, leaderPatience, errPatience)
	defer cancel()
	if hint == "" {
		var watched func()
		ctx, watched = r.whileLeading(ctx, to)
		defer watched()
	}
	reply, sent, err := r.config.Forward(ctx, to, c.encode())
	switch {
	case err != nil && sent:
		return unsure(fmt.Errorf("ask %s: %w", to, err))
	case err != nil:
		return later(fmt.Errorf("ask %s: %w", to, err))
	}
	a, err := decodeAnswer(reply)
	if err != nil {
		return unsure(fmt.Errorf("ask %s: %w", to, err))
	}
	return a
}

// errReplaced ends the wait for the answer of a leader that leads no more.
var errReplaced = errors.New("registry: another node leads by now")

// whileLeading gives a context that ends when another node than this leader is known
// to lead: one that has died answers nothing, and its connection tells so late. end
// must be called, and waits for the watch.
func (r *Registry) whileLeading(ctx context.Context, leader NodeID) (watched context.Context, end func()) {
	watched, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			_, changed := r.lead.state()
			if now := r.otherLeader(); r.lead.is() || now != "" && now != leader {
				cancel(errReplaced)
				return
			}
			select {
			case <-changed:
			case <-watched.Done():
				return
			}
		}
	})
	return watched, func() { cancel(nil); watch.Wait() }
}

// ask has the leader perform an operation that may be done more than once, such as
// a question.
func (r *Registry) ask(ctx context.Context, op operation, body []byte) (answer, error) {
	return r.persist(ctx, func(hint NodeID, _ bool) answer {
		c := call{op: op, body: body}
		if r.lead.is() {
			return r.perform(ctx, r.dir.owner, c)
		}
		return r.send(ctx, hint, c)
	})
}
