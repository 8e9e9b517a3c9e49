package node

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/locusrun/locus/node/calls"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

// Execution finds a call of the actor on whichever node has its record. If a node that may
// have it does not answer, the result is a refusal: the call may exist.
func (n *Node) Execution(ctx context.Context, who gateway.Caller, callID string) (gateway.Execution, error) {
	return n.find(ctx, who, callID, "")
}

// find is Execution. With the idempotency key that stands for the call it also finds the result
// that the call's home keeps under the key. That outlives the record: it survives restarts, and
// however many calls end after it.
func (n *Node) find(ctx context.Context, who gateway.Caller, callID, key string) (gateway.Execution, error) {
	if r := n.calls.Get(who.Actor, callID); r != nil && belongs(r, who.ActorID) {
		return &execution{r, n}, nil
	}
	elsewhere, silent := n.findElsewhere(ctx, who, callID, key)
	guest := n.recordHere(who.Actor, callID)
	if guest != nil && !belongs(guest.Record, who.ActorID) {
		guest = nil
	}
	switch {
	case elsewhere != nil && (guest == nil || !elsewhere.guest):
		return elsewhere, nil
	case guest != nil && (len(silent) == 0 || n.mayServe() || !guest.Ended()):
		// The call ran here, and the node with its full record does not answer. Without a
		// lease this node's outcome does not count: the call may have run again elsewhere.
		return guest, nil
	case len(silent) > 0:
		return nil, &surfaces.Refusal{
			Code: surfaces.CodeOwnerUnreachable, RetryAfterS: 2,
			Message:    fmt.Sprintf("no node that answers holds call %q, and %s, which may hold it, does not answer", callID, silent[0]),
			Suggestion: "Try again when the node is back; locus nodes lists them.",
		}
	}
	return nil, nil
}

// Executions lists the actor's calls on all nodes, newest first.
func (n *Node) Executions(ctx context.Context, who gateway.Caller) []gateway.CallSummary {
	asked := actorAsk{who.Actor, who.ActorID}
	list := n.callsHere(asked)
	for _, more := range askOthers[[]gateway.CallSummary](ctx, n, methodList, asked) {
		list = append(list, more...)
	}
	slices.SortFunc(list, func(a, b gateway.CallSummary) int { return strings.Compare(b.CallID, a.CallID) })
	return list
}

// belongs reports whether a call is of the actor with an id, and not of an ended one of the
// same name. An empty id stands for any.
func belongs(r *calls.Record, actorID string) bool {
	return actorID == "" || r.Call.ActorID == "" || r.Call.ActorID == actorID
}

// callsHere lists the calls of an actor with records on this node.
func (n *Node) callsHere(whose actorAsk) []gateway.CallSummary {
	list := []gateway.CallSummary{}
	for _, r := range n.calls.List(whose.Actor) {
		if !belongs(r, whose.ActorID) {
			continue
		}
		res := r.Result()
		s := gateway.CallSummary{
			CallID: r.ID, Status: res.Status, Code: res.Code, Language: r.Call.Language, StateMode: r.Call.StateMode,
			SessionID: res.SessionID, SessionName: res.SessionName, StartedAt: r.Started.UTC(), DurationMS: res.DurationMS,
			Thought: r.Call.Thought, Parent: r.Call.Parent, Function: r.Call.Function,
		}
		if run := n.engine.Running(r.ID); run != nil {
			s.Paused = run.Paused()
		}
		list = append(list, s)
	}
	return list
}

// keptResult answers a search by another node for a call whose record this node does not hold.
func (n *Node) keptResult(ctx context.Context, q callAsk) (findReply, error) {
	r, err := n.keys.Kept(ctx, calls.Key{Actor: q.Actor, ActorID: q.ActorID, Text: q.Key}, q.CallID, string(n.id))
	if err != nil || r == nil {
		return findReply{}, err
	}
	// A running call has got its record while this was waiting for it.
	return findReply{Here: true, Kept: r.Ended(), Result: r.Result()}, nil
}

// heldRecord returns this node's record of a call, either the caller's or that of an attempt run
// for another node.
func (n *Node) heldRecord(actor, callID string) *calls.Record {
	if r := n.calls.Get(actor, callID); r != nil {
		return r
	}
	return n.serving.Record(actor, callID)
}

func (n *Node) recordHere(actor, callID string) *execution {
	if r := n.heldRecord(actor, callID); r != nil {
		return &execution{r, n}
	}
	return nil
}

// mustHaveRecord is recordHere with an error if the call is not here.
func (n *Node) mustHaveRecord(actor, callID string) (*execution, error) {
	if e := n.recordHere(actor, callID); e != nil {
		return e, nil
	}
	return nil, surfaces.UnknownExecution(callID)
}
