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
func (n *Node) findElsewhere(ctx context.Context, actor, callID string) (best *remoteExecution, silent []registry.NodeID) {
	answers := askOthers[findReply](ctx, n, methodFind, callAsk{actor, callID})
	for id, f := range answers {
		if f.Here && (best == nil || !f.Guest) {
			m := &remoteExecution{node: n, home: id, guest: f.Guest, actor: actor, id: callID, found: f.Result}
			m.startCopy = sync.OnceValue(func() *calls.Record { return m.begin(ctx) })
			best = m
		}
	}
	for _, id := range n.others() {
		if _, ok := answers[id]; !ok {
			silent = append(silent, id)
		}
	}
	return best, silent
}

// ID returns the call's id.
func (m *remoteExecution) ID() string { return m.id }

// Result returns the result at the time of the look-up, or the final one if the copy has
// seen the call end.
func (m *remoteExecution) Result() surfaces.Result {
	if r := m.copy.Load(); r != nil && r.Ended() {
		return r.Result()
	}
	return m.found
}

// begin copies the call's events until the call or ctx ends.
func (m *remoteExecution) begin(ctx context.Context) *calls.Record {
	r := calls.NewRecord(m.id, surfaces.Call{Actor: m.actor}, func() {})
	m.copy.Store(r)
	m.node.work.Go(func() {
		res, err := peer.Follow(ctx, m.node.mesh, string(m.home), m.actor, m.id, r)
		if err != nil {
			m.node.cfg.Log.Info("a call can be followed no longer", "call_id", m.id, "node", m.home, "error", err)
			res = surfaces.Failed(surfaces.Partial{CallID: m.id, Node: string(m.home), Attempts: 1, DurationMS: float64(time.Since(r.Started).Milliseconds())},
				surfaces.CodeOutcomeUnknown, "node "+string(m.home)+", which holds the call, cannot be reached any more; the call may go on there")
		}
		r.Finish(res)
	})
	return r
}

// Done returns a channel that is closed when the call has ended.
func (m *remoteExecution) Done() <-chan struct{} { return m.startCopy().Done() }

// Follow emits the call's events, and its output from a byte offset on.
func (m *remoteExecution) Follow(ctx context.Context, from int64, emit func(gateway.StreamEvent) error) error {
	return follow(ctx, m.startCopy(), from, emit)
}

// Abandon does nothing: the node with the record notices that the follower has gone.
func (m *remoteExecution) Abandon(time.Duration) {}

// Steer forwards the action to the node with the record.
func (m *remoteExecution) Steer(ctx context.Context, action string, body []byte) (json.RawMessage, error) {
	s, _ := readSteering(action, body) // the node that holds the call reports what is wrong with it
	return askOwner[json.RawMessage](ctx, m.node, s.runs(), m.home, methodSteer, steerAsk{m.actor, m.id, action, body})
}

// Primitives fetches the uses from the node with the record.
func (m *remoteExecution) Primitives(ctx context.Context) ([]surfaces.UseRecord, error) {
	return askOwner[[]surfaces.UseRecord](ctx, m.node, 0, m.home, methodUses, callAsk{m.actor, m.id})
}

// AnswerPrimitive forwards the caller's answer to the node with the record.
func (m *remoteExecution) AnswerPrimitive(ctx context.Context, seq string, body []byte) error {
	_, err := askOwner[nothing](ctx, m.node, 0, m.home, methodPrimitive, primitiveAsk{m.actor, m.id, seq, body})
	return err
}
