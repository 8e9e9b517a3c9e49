package registry

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// maybeApplied is a failure after which the leader may still have performed the request.
type maybeApplied struct{ error }

func (m maybeApplied) Unwrap() error { return m.error }

// retry calls try until the leader has answered, for a bounded time: leaderTimeout while
// surely nothing was performed, and three times that once something may have been, since
// then only another try can find out. hint is the leader that the last answer named, if
// any; resent says that an earlier try may have been performed. The error is final: a
// refusal, an ErrUnavailable, or a maybeApplied.
func (r *Registry) retry(ctx context.Context, try func(hint NodeID, resent bool) answer) (answer, error) {
	if err := r.usable(ctx); err != nil {
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
		case statusNotLeader:
			if r.config.Forward == nil && unknown == nil {
				return a, &NotLeaderError{Leader: r.otherLeader()}
			}
			if hint = NodeID(a.body); hint == r.dir.owner {
				hint = ""
			}
		}
		bound := leaderTimeout
		if unknown != nil {
			bound = 3 * leaderTimeout
		}
		if err := r.waitRetry(ctx, changed, bound-time.Since(began)); err != nil {
			return a, r.giveUpError(a, err, unknown)
		}
	}
}

// errTimedOut ends the wait for a leader.
var errTimedOut = errors.New("registry: waited long enough")

// waitRetry waits for retryPause, or until the leadership changes.
func (r *Registry) waitRetry(ctx context.Context, changed <-chan struct{}, left time.Duration) error {
	if err := r.usable(ctx); err != nil {
		return err
	}
	if left <= 0 {
		return errTimedOut
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

// giveUpError is the error of a request that no leader answered. why ended the wait, unknown
// is the failure after which the request may have been performed, if there was one.
func (r *Registry) giveUpError(last answer, why, unknown error) error {
	switch {
	case unknown != nil && !errors.Is(why, errTimedOut):
		return maybeApplied{why}
	case unknown != nil:
		return maybeApplied{unknown}
	case !errors.Is(why, errTimedOut):
		return fmt.Errorf("%w: %w", ErrUnavailable, why)
	case last.status == statusNotLeader, r.otherLeader() == "" && !r.lead.is():
		return ErrNoQuorum
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, last.cause)
}

// otherLeader returns the leader that raft knows, or "" if that is this node.
func (r *Registry) otherLeader() NodeID {
	if leader := r.Leader(); leader != r.dir.owner {
		return leader
	}
	return ""
}

// send sends a call once: to the node that hint names, else to the known leader.
func (r *Registry) send(ctx context.Context, hint NodeID, c call) answer {
	to := hint
	if to == "" {
		to = r.otherLeader()
	}
	if to == "" || r.config.Forward == nil {
		return notLeader(to)
	}
	if err := r.acquire(ctx); err != nil {
		return retryLater(err)
	}
	defer r.releaseSlot()
	ctx, cancel := context.WithTimeoutCause(ctx, leaderTimeout, errTimedOut)
	defer cancel()
	if hint == "" {
		var watched func()
		ctx, watched = r.whileLeading(ctx, to)
		defer watched()
	}
	reply, sent, err := r.config.Forward(ctx, to, c.encode())
	switch {
	case err != nil && sent:
		return outcomeUnknown(fmt.Errorf("ask %s: %w", to, err))
	case err != nil:
		return retryLater(fmt.Errorf("ask %s: %w", to, err))
	}
	a, err := decodeAnswer(reply)
	if err != nil {
		return outcomeUnknown(fmt.Errorf("ask %s: %w", to, err))
	}
	return a
}

// errReplaced ends the wait for the answer of a node that is no longer the leader.
var errReplaced = errors.New("registry: another node leads by now")

// whileLeading returns a context that ends when another node is known to lead. A leader that
// has died does not answer, and its connection reports that late. end must be called; it
// waits for the goroutine that watches.
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

// ask has the leader perform an idempotent operation.
func (r *Registry) ask(ctx context.Context, op operation, body []byte) (answer, error) {
	return r.retry(ctx, func(hint NodeID, _ bool) answer {
		c := call{op: op, body: body}
		if r.lead.is() {
			return r.perform(ctx, r.dir.owner, c)
		}
		return r.send(ctx, hint, c)
	})
}
