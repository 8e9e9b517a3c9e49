package node

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/locusrun/locus/node/calls"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/peer"
	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

// remoteExecution is a call whose record is on another node. Its events are fetched only when
// somebody reads them.
type remoteExecution struct {
	node  *Node
	home  registry.NodeID
	guest bool // home has only an attempt of the call, not its record
	actor string
	id    string
	found surfaces.Result

	// startCopy starts to copy the call's events, once, until the request ends that looked the
	// call up. copy is the copy so far.
	startCopy func() *calls.Record
	copy      atomic.Pointer[calls.Record]
}

var _ gateway.Execution = (*remoteExecution)(nil)

// findElsewhere looks for a call on the other nodes. It prefers the node with the call's
// record to one with only an attempt, which may have been lost. silent are the nodes that
// did not answer.
func (n *Node) findElsewhere(ctx context.Context, who gateway.Caller, callID, key string) (best *remoteExecution, silent []registry.NodeID) {
	answers := askOthers[findReply](ctx, n, methodFind, callAsk{Actor: who.Actor, CallID: callID, ActorID: who.ActorID, Key: key})
	for id, f := range answers {
		if f.Here && (best == nil || !f.Guest) {
			e := &remoteExecution{node: n, home: id, guest: f.Guest, actor: who.Actor, id: callID, found: f.Result}
			e.startCopy = sync.OnceValue(func() *calls.Record { return e.begin(ctx) })
			if f.Kept {
				e.startCopy = sync.OnceValue(func() *calls.Record { return endedRecord(callID, who.Actor, f.Result) })
			}
			best = e
		}
	}
	for _, id := range n.others() {
		if _, ok := answers[id]; !ok {
			silent = append(silent, id)
		}
	}
	return best, silent
}

// endedRecord is the record of a call of which only the result is left.
func endedRecord(id, actor string, res surfaces.Result) *calls.Record {
	r := calls.NewRecord(id, surfaces.Call{Actor: actor}, func() {})
	r.Complete(res)
	r.Finish(res)
	return r
}

// ID returns the call's id.
func (e *remoteExecution) ID() string { return e.id }

// Result returns the result at the time of the look-up, or the final one if the copy has
// seen the call end.
func (e *remoteExecution) Result() surfaces.Result {
	if r := e.copy.Load(); r != nil && r.Ended() {
		return r.Result()
	}
	return e.found
}

// begin copies the call's events until the call or ctx ends.
func (e *remoteExecution) begin(ctx context.Context) *calls.Record {
	r := calls.NewRecord(e.id, surfaces.Call{Actor: e.actor}, func() {})
	e.copy.Store(r)
	e.node.work.Go(func() {
		res, err := peer.Follow(ctx, e.node.mesh, string(e.home), e.actor, e.id, r)
		if err != nil {
			e.node.cfg.Log.Info("a call can be followed no longer", "call_id", e.id, "node", e.home, "error", err)
			res = surfaces.Failed(surfaces.Partial{CallID: e.id, Node: string(e.home), Attempts: 1, DurationMS: float64(time.Since(r.Started).Milliseconds())},
				surfaces.CodeOutcomeUnknown, "node "+string(e.home)+", which holds the call, cannot be reached any more; the call may go on there")
		}
		r.Finish(res)
	})
	return r
}

// Done returns a channel that is closed when the call has ended.
func (e *remoteExecution) Done() <-chan struct{} { return e.startCopy().Done() }

// Follow emits the call's events, and its output from a byte offset on.
func (e *remoteExecution) Follow(ctx context.Context, from int64, emit func(gateway.StreamEvent) error) error {
	return follow(ctx, e.startCopy(), from, emit)
}

// Abandon does nothing: the node with the record notices that the follower has gone.
func (e *remoteExecution) Abandon(time.Duration) {}

// Steer forwards the action to the node with the record.
func (e *remoteExecution) Steer(ctx context.Context, action string, body []byte) (json.RawMessage, error) {
	s, _ := readSteering(action, body) // the node that holds the call reports what is wrong with it
	return askOwner[json.RawMessage](ctx, e.node, s.runs(), e.home, methodSteer, steerAsk{e.actor, e.id, action, body})
}

// Primitives fetches the uses from the node with the record.
func (e *remoteExecution) Primitives(ctx context.Context) ([]surfaces.UseRecord, error) {
	return askOwner[[]surfaces.UseRecord](ctx, e.node, 0, e.home, methodUses, callAsk{Actor: e.actor, CallID: e.id})
}

// AnswerPrimitive forwards the caller's answer to the node with the record.
func (e *remoteExecution) AnswerPrimitive(ctx context.Context, seq string, body []byte) error {
	_, err := askOwner[nothing](ctx, e.node, 0, e.home, methodPrimitive, primitiveAsk{e.actor, e.id, seq, body})
	return err
}
