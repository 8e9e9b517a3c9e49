package node

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/locusrun/locus/node/calls"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

// keyTakenError says that an idempotency key belongs to an earlier call.
type keyTakenError struct{ reserved registry.ReservedKey }

func (t *keyTakenError) Error() string {
	return "the idempotency key stands for call " + t.reserved.CallID
}

// errUnreserved is the cause when a call's deadline passes before its key is reserved.
var errUnreserved = fmt.Errorf("%w: the call's deadline passed before its idempotency_key was reserved", registry.ErrUnavailable)

// startOnce starts a call under an idempotency key, or returns the earlier call that has
// the key. The registry maps keys to calls for the whole mesh; the node that a call came to
// keeps its result.
func (n *Node) startOnce(ctx context.Context, who gateway.Caller, body []byte, call surfaces.Call, arrived time.Time, resolve func() (surfaces.Call, *surfaces.Refusal)) gateway.Execution {
	digest, err := calls.Digest(body)
	if err != nil {
		return n.refused(ctx, who, body, n.fault(err))
	}
	key := calls.Key{Actor: who.Actor, ActorID: who.ActorID, Text: call.IdempotencyKey, Digest: digest}
	reserving, done := context.WithDeadlineCause(ctx, arrived.Add(call.Timeout), errUnreserved)
	defer done()
	r, fresh, err := n.keys.Use(reserving, key, string(n.id), func() (*calls.Record, error) {
		id := calls.NewID()
		out, err := n.registry.ReserveKey(reserving, registry.ReserveKey{
			Actor: who.Actor, Key: call.IdempotencyKey, Digest: hex.EncodeToString(digest), CallID: id, Home: n.id,
		})
		switch {
		case err != nil:
			return nil, err
		case out.Result == registry.KeyConflict:
			return nil, surfaces.KeyReused(call.IdempotencyKey)
		case out.Result == registry.KeySame:
			return nil, &keyTakenError{out.Reserved}
		case out.Result == registry.KeyLimit:
			return nil, tooManyKeys(out.Reserved)
		case out.Result != registry.KeyReserved:
			return nil, &surfaces.Refusal{Code: surfaces.CodeUnauthenticated, Message: "the actor has ended"}
		}
		return n.calls.Begin(id, call, n.stop), nil
	})
	var taken *keyTakenError
	switch {
	case errors.As(err, &taken):
		n.noteRepeated(who, taken.reserved.CallID)
		endRepeatedSpan(ctx, who.Actor, taken.reserved.CallID)
		return n.existingExecution(ctx, who, body, taken.reserved)
	case err != nil:
		refusal := n.fault(err)
		if r != nil {
			n.calls.End(r, refusal.Result(surfaces.Partial{CallID: r.ID, Node: string(n.id)}), func(bool) {})
		}
		return n.refused(ctx, who, body, refusal)
	case !fresh:
		n.noteRepeated(who, r.ID)
		endRepeatedSpan(ctx, who.Actor, r.ID)
		return &execution{r, n}
	}
	return n.run(ctx, r, who.Streams, arrived, resolve, func() {
		if err := n.keys.Ended(key, r); err != nil {
			n.cfg.Log.Error("the result of a call could not be kept under its key", "call_id", r.ID, "error", err)
		}
	})
}

// tooManyKeys refuses a key beyond registry.MaxKeys. There is room when the oldest one expires.
func tooManyKeys(oldest registry.ReservedKey) *surfaces.Refusal {
	wait := max(time.Until(oldest.At.Time().Add(surfaces.KeyLife)), time.Second).Seconds()
	return &surfaces.Refusal{
		Code: surfaces.CodeNoCapacity, RetryAfterS: math.Ceil(wait),
		Message:    fmt.Sprintf("the actor has used %d idempotency keys within 24 hours, and no more are kept", registry.MaxKeys),
		Suggestion: fmt.Sprintf("Drop idempotency_key, or send the call again in %.0f s.", math.Ceil(wait)),
	}
}

// existingExecution returns the call that has a key, from the node that keeps its result. That
// it is unknown is said only once that node is lost: until then the next answer may be the
// result.
func (n *Node) existingExecution(ctx context.Context, who gateway.Caller, body []byte, by registry.ReservedKey) gateway.Execution {
	e, err := n.find(ctx, who, by.CallID, by.Key)
	if err == nil && e != nil {
		return e
	}
	if home, known := n.registry.View().Node(by.Home); err != nil && by.Home != n.id && known && home.State != registry.NodeExpired {
		return n.refused(ctx, who, body, &surfaces.Refusal{
			Code: surfaces.CodeOwnerUnreachable, RetryAfterS: 2,
			Message: "the call that this idempotency_key stands for was started on node " + string(by.Home) + ", which does not answer at the moment; nothing was run again",
		})
	}
	r := calls.NewRecord(by.CallID, surfaces.Call{Actor: who.Actor}, func() {})
	r.Finish(surfaces.Failed(surfaces.Partial{CallID: by.CallID, Node: string(by.Home), Attempts: 1}, surfaces.CodeOutcomeUnknown,
		"the call that this idempotency_key stands for was started on node "+string(by.Home)+", and its result cannot be had from there; nothing was run again"))
	return &execution{r, n}
}
