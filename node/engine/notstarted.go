package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/surfaces"
)

// notStarted returns the outcome of an attempt of which certainly nothing has run.
func (r *Run) notStarted(err error) surfaces.Outcome {
	out := surfaces.Outcome{Result: r.base()}
	res := &out.Result
	var gone *goneError
	var refusal *surfaces.Refusal
	var stale *staleError
	var start *StartError
	var died *kernel.Died
	switch {
	case errors.Is(err, errSessionClosed):
		res.Fail(surfaces.CodeStopped, "the session was closed while the call waited for its turn; nothing ran")
		res.Exit = &surfaces.Exit{Reason: surfaces.ReasonStopped}
	case isClosed(err), errors.As(err, &stale):
		// The caller's view of the session was out of date.
		out.Misrouted = true
	case errors.As(err, &gone):
		r.lost(res, gone.loss)
		res.Fail(surfaces.CodeSessionLost, "the session's state is gone: "+gone.loss.Reason)
		out.Loss = &gone.loss
	case errors.As(err, &refusal):
		*res = r.refused(refusal)
	case errors.As(err, &start):
		r.tap.Output(kernel.Stderr, []byte(start.Stderr))
		res.Fail(start.Code, start.Message)
	case errors.Is(err, errNotServing):
		*res = r.refused(&surfaces.Refusal{Code: surfaces.CodeOwnerUnreachable, Message: errNotServing.Error() + "; nothing ran", RetryAfterS: 1})
	case errors.Is(err, errExpired):
		res.Fail(surfaces.CodeTimeout, fmt.Sprintf("the call had not started after %s; nothing ran", r.attempt.Call.Timeout))
		res.Exit = &surfaces.Exit{Reason: surfaces.ReasonTimeout}
	case errors.Is(err, errStopped), errors.Is(err, context.Canceled):
		res.Fail(surfaces.CodeStopped, "the call was stopped before it had started; nothing ran")
		res.Exit = &surfaces.Exit{Reason: surfaces.ReasonStopped}
	case errors.Is(err, errClosing):
		res.Fail(surfaces.CodeNoCapacity, "this node is shutting down; nothing ran")
	case errors.As(err, &died):
		fault(res, died.Exit, " before it had begun; nothing ran")
	case errors.Is(err, context.DeadlineExceeded):
		r.engine.log.Warn("a process for a call could not be started in time", "call_id", r.attempt.CallID, "error", err)
		*res = r.refused(&surfaces.Refusal{Code: surfaces.CodeNoCapacity, Message: "no process for the code could be started in time; nothing ran", RetryAfterS: 5})
	default:
		id := r.attempt.CallID
		r.engine.log.Error("a kernel could not be started", "call_id", id, "error", err)
		*res = r.refused(surfaces.Internal(id))
	}
	return out
}

// refused turns a refusal into the result of the attempt.
func (r *Run) refused(refusal *surfaces.Refusal) surfaces.Result {
	return refusal.Result(r.engine.partial(&r.attempt, r.began))
}
