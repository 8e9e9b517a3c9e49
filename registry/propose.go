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
	answer, err := r.apply(ctx, c)
	if err != nil {
		return none, err
	}
	if err := answer.verdict.refusal(); err != nil {
		return none, err
	}
	return answer.outcome.(O), nil
}

// apply sends one command and waits for its reply, at most until ctx ends. An
// error that is no ErrUnknownOutcome means that the command has no effect.
func (r *Registry) apply(ctx context.Context, c command) (reply, error) {
	p := c.proposal()
	if p.Request == (RequestID{}) {
		p.Request = NewRequestID()
	}
	if p.At == 0 {
		p.At = At(time.Now())
	}
	data, err := encodeCommand(c, p)
	if err != nil {
		return reply{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if err := r.enter(ctx); err != nil {
		return reply{}, err
	}
	type result struct {
		answer reply
		err    error
	}
	// raft bounds only the wait for its queue, not for the commit, and knows no
	// contexts. The goroutine ends when raft answers, at the latest when it stops.
	done := make(chan result, 1)
	go func() {
		defer r.leave()
		future := r.raft.Apply(data, patience(ctx))
		if err := future.Error(); err != nil {
			done <- result{err: err}
			return
		}
		done <- result{answer: future.Response().(reply)}
	}()
	select {
	case got := <-done:
		if got.err != nil {
			return reply{}, r.classify(got.err, p.Request)
		}
		return got.answer, nil
	case <-ctx.Done():
		return reply{}, &UnknownOutcomeError{Request: p.Request, Cause: context.Cause(ctx)}
	}
}

// enter takes a slot for a command, unless the registry closes or cannot write.
func (r *Registry) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
	}
	if err := r.Health(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%w: too many commands under way: %w", ErrUnavailable, context.Cause(ctx))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		<-r.slots
		return fmt.Errorf("%w: %w", ErrUnavailable, errClosed)
	}
	r.underway.Add(1)
	return nil
}

var errClosed = errors.New("the registry is closed")

func (r *Registry) leave() {
	<-r.slots
	r.underway.Done()
}

// patience is how long a command may wait to be taken by raft.
func patience(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return enqueueTimeout
	}
	return max(min(time.Until(deadline), enqueueTimeout), time.Nanosecond)
}
