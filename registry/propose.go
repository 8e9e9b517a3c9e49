package registry

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// propose puts a command into the log and returns its outcome, which is of type O.
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

// errBehind is why a command that was applied is reported as unknown: this node did not
// apply it itself in time.
var errBehind = errors.New("registry: this node is behind the leader")

// apply sends a command to the leader, on whichever node that is. It waits for the reply and
// then until this node has applied the command too, at most until ctx ends. Any error except
// ErrUnknownOutcome means that the command has no effect.
func (r *Registry) apply(ctx context.Context, c command) (reply, error) {
	p := c.proposal()
	if p.Request == (RequestID{}) {
		p.Request = NewRequestID()
	}
	if p.At == 0 {
		p.At = At(time.Now())
	}
	view := r.View()
	data, err := encodeCommand(c, p, meshLevel(view.tables()))
	if err != nil {
		return reply{}, err
	}
	// The command cannot be in the log at or before this index.
	s := commandRequest{since: view.Index(), command: data}
	var got commandResult
	_, err = r.retry(ctx, func(hint NodeID, resent bool) (a answer) {
		s.resent = resent
		if r.lead.is() {
			got, a = r.applyHere(ctx, s)
			return a
		}
		a = r.send(ctx, hint, call{op: opCommand, body: s.encode()})
		if a.status == statusDone {
			if got, err = decodeCommandResult(a.body, c.kind()); err != nil {
				return outcomeUnknown(err)
			}
		}
		return a
	})
	if err == nil {
		err = r.awaitIndex(ctx, got.index)
	}
	if cause := (maybeApplied{}); errors.As(err, &cause) {
		return reply{}, &UnknownOutcomeError{Request: p.Request, Cause: cause.error}
	}
	return got.reply, err
}

// applyHere puts a command into the log on this node, which is the leader, and waits for its
// result, at most until ctx ends.
func (r *Registry) applyHere(ctx context.Context, s commandRequest) (commandResult, answer) {
	if s.resent && r.raft.LastIndex()+maxInFlight >= s.since+RequestWindow {
		return commandResult{}, outcomeUnknown(errors.New("registry: its request id may be forgotten by now"))
	}
	if err := r.acquire(ctx); err != nil {
		return commandResult{}, retryLater(err)
	}
	type outcome struct {
		result commandResult
		err    error
	}
	// raft bounds only the wait for its queue, not for the commit, and takes no context.
	// The goroutine ends when raft answers, at the latest when it shuts down.
	ended := make(chan outcome, 1)
	go func() {
		defer r.releaseSlot()
		future := r.raft.Apply(s.command, enqueueWait(ctx))
		if err := future.Error(); err != nil {
			ended <- outcome{err: err}
			return
		}
		ended <- outcome{result: commandResult{future.Index(), future.Response().(reply)}}
	}()
	select {
	case got := <-ended:
		if got.err != nil {
			return commandResult{}, r.failed(got.err)
		}
		return got.result, answer{status: statusDone}
	case <-ctx.Done():
		return commandResult{}, outcomeUnknown(context.Cause(ctx))
	}
}

// acquire takes one of the slots that bound the requests in flight, unless the registry is
// closing or cannot write. releaseSlot gives it back.
func (r *Registry) acquire(ctx context.Context) error {
	if err := r.usable(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%w: too many commands in flight: %w", ErrUnavailable, context.Cause(ctx))
	}
	if err := r.retain(); err != nil {
		<-r.slots
		return err
	}
	return nil
}

// retain makes shutdown wait, for a bounded time, until release is called.
func (r *Registry) retain() error {
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

// usable returns why no request can be started now, or nil.
func (r *Registry) usable(ctx context.Context) error {
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

func (r *Registry) releaseSlot() {
	<-r.slots
	r.release()
}

// enqueueWait is how long a command may wait in raft's queue.
func enqueueWait(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return enqueueTimeout
	}
	return max(min(time.Until(deadline), enqueueTimeout), time.Nanosecond)
}

// awaitIndex waits until this node has applied the log up to an index, for a bounded time.
// Its error is a maybeApplied, because the entry is committed.
func (r *Registry) awaitIndex(ctx context.Context, index uint64) error {
	for deadline := (<-chan time.Time)(nil); ; {
		v := r.View()
		if v.Index() >= index {
			return nil
		}
		if deadline == nil {
			timer := time.NewTimer(leaderTimeout)
			defer timer.Stop()
			deadline = timer.C
		}
		select {
		case <-v.Changed():
		case <-deadline:
			return maybeApplied{errBehind}
		case <-ctx.Done():
			return maybeApplied{context.Cause(ctx)}
		}
	}
}
