package registry

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// propose sends one command through the log and gives its outcome. O is the
// outcome of the command's kind.
func propose[O any](ctx context.Context, r *Registry, c command) (O, error) {
	var none O
	reply, err := r.apply(ctx, c)
	if err != nil {
		return none, err
	}
	if err := reply.verdict.refusal(); err != nil {
		return none, err
	}
	return reply.outcome.(O), nil
}

// errBehind is why a command that acted is reported as unknown: this node did not
// come to see it in time.
var errBehind = errors.New("registry: this node is behind the leader")

// apply sends one command to the leader, wherever that is, and waits for its
// reply and until this node has applied it, at most until ctx ends. An error that
// is no ErrUnknownOutcome means that the command has no effect.
func (r *Registry) apply(ctx context.Context, c command) (reply, error) {
	p := c.proposal()
	if p.Request == (RequestID{}) {
		p.Request = NewRequestID()
	}
	if p.At == 0 {
		p.At = At(time.Now())
	}
	view := r.View()
	data, err := encodeCommand(c, p, feature(view.tables()))
	if err != nil {
		return reply{}, err
	}
	// The command cannot stand in the log before this index.
	s := sending{since: view.Index(), command: data}
	var got result
	_, err = r.persist(ctx, func(hint NodeID, resent bool) (a answer) {
		s.resent = resent
		if r.lead.is() {
			got, a = r.applyHere(ctx, s)
			return a
		}
		a = r.send(ctx, hint, call{op: opCommand, body: s.encode()})
		if a.status == statusDone {
			if got, err = decodeResult(a.body, c.kind()); err != nil {
				return unsure(err)
			}
		}
		return a
	})
	if err == nil {
		err = r.awaitIndex(ctx, got.index)
	}
	if cause := (maybeDone{}); errors.As(err, &cause) {
		return reply{}, &UnknownOutcomeError{Request: p.Request, Cause: cause.error}
	}
	return got.reply, err
}

// applyHere puts a command in the log of this node, which leads, and waits for its
// result, at most until ctx ends.
func (r *Registry) applyHere(ctx context.Context, s sending) (result, answer) {
	if s.resent && r.raft.LastIndex()+maxInFlight >= s.since+RequestWindow {
		return result{}, unsure(errors.New("registry: its request id may be forgotten by now"))
	}
	if err := r.enter(ctx); err != nil {
		return result{}, later(err)
	}
	type outcome struct {
		result result
		err    error
	}
	// raft bounds only the wait for its queue, not for the commit, and knows no
	// contexts. The goroutine ends when raft answers, at the latest when it stops.
	ended := make(chan outcome, 1)
	go func() {
		defer r.leave()
		future := r.raft.Apply(s.command, patience(ctx))
		if err := future.Error(); err != nil {
			ended <- outcome{err: err}
			return
		}
		ended <- outcome{result: result{future.Index(), future.Response().(reply)}}
	}()
	select {
	case got := <-ended:
		if got.err != nil {
			return result{}, r.failed(got.err)
		}
		return got.result, answer{status: statusDone}
	case <-ctx.Done():
		return result{}, unsure(context.Cause(ctx))
	}
}

// enter takes a slot for something under way, unless the registry closes or cannot
// write.
func (r *Registry) enter(ctx context.Context) error {
	if err := r.fit(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%w: too many commands under way: %w", ErrUnavailable, context.Cause(ctx))
	}
	if err := r.hold(); err != nil {
		<-r.slots
		return err
	}
	return nil
}

// hold keeps the registry from stopping, for a bounded time, until release.
func (r *Registry) hold() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		return fmt.Errorf("%w: %w", ErrUnavailable, errClosed)
	}
	r.underway.Add(1)
	return nil
}

func (r *Registry) release() { r.underway.Done() }

var errClosed = errors.New("the registry is closed")

// fit says why nothing can be begun now, if so.
func (r *Registry) fit(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r.mu.Lock()
	closing := r.closing
	r.mu.Unlock()
	if closing {
		return errClosed
	}
	return r.Health()
}

func (r *Registry) leave() {
	<-r.slots
	r.release()
}

// patience is how long a command may wait to be taken by raft.
func patience(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return enqueueTimeout
	}
	return max(min(time.Until(deadline), enqueueTimeout), time.Nanosecond)
}

// awaitIndex waits until this node has applied an entry, for a bounded time. Its
// error is a maybeDone: what is waited for did happen.
func (r *Registry) awaitIndex(ctx context.Context, index uint64) error {
	for deadline := (<-chan time.Time)(nil); ; {
		v := r.View()
		if v.Index() >= index {
			return nil
		}
		if deadline == nil {
			timer := time.NewTimer(leaderPatience)
			defer timer.Stop()
			deadline = timer.C
		}
		select {
		case <-v.Changed():
		case <-deadline:
			return maybeDone{errBehind}
		case <-ctx.Done():
			return maybeDone{context.Cause(ctx)}
		}
	}
}
