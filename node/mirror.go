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

// mirror is a call whose record another node holds. What the call says comes here
// only when somebody wants to hear it.
type mirror struct {
	node  *Node
	home  registry.NodeID
	guest bool // home only runs the call
	actor string
	id    string
	found surfaces.Result

	// copied begins to copy what the call says, the first time, for as long as the request
	// goes on that looked the call up. copy is what there is of it.
	copied func() *calls.Record
	copy   atomic.Pointer[calls.Record]
}

var _ gateway.Execution = (*mirror)(nil)

// findElsewhere looks for a call on the other nodes. A node that holds the call's
// record is preferred to one that only runs it, which may be of a lost attempt. silent
// are those that did not answer.
func (n *Node) findElsewhere(ctx context.Context, actor, callID string) (best *mirror, silent []registry.NodeID) {
	answers := askOthers[found](ctx, n, methodFind, callAsk{actor, callID})
	for id, f := range answers {
		if f.Here && (best == nil || !f.Guest) {
			m := &mirror{node: n, home: id, guest: f.Guest, actor: actor, id: callID, found: f.Result}
			m.copied = sync.OnceValue(func() *calls.Record { return m.begin(ctx) })
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

// ID gives the call's id.
func (m *mirror) ID() string { return m.id }

// Result gives the result, or the result so far, as it was when the call was
// looked up or as it ended since.
func (m *mirror) Result() surfaces.Result {
	if r := m.copy.Load(); r != nil && r.Ended() {
		return r.Result()
	}
	return m.found
}

// begin copies what the call says, until it has ended or ctx has.
func (m *mirror) begin(ctx context.Context) *calls.Record {
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

// Done is closed when the call has ended.
func (m *mirror) Done() <-chan struct{} { return m.copied().Done() }

// Follow tells the call's events and output from a byte on.
func (m *mirror) Follow(ctx context.Context, from int64, emit func(gateway.StreamEvent) error) error {
	return follow(ctx, m.copied(), from, emit)
}

// Abandon does nothing: the node that holds the record notices by itself that
// nobody follows any more.
func (m *mirror) Abandon(time.Duration) {}

// Steer has the node that holds the record do it.
func (m *mirror) Steer(ctx context.Context, action string, body []byte) (json.RawMessage, error) {
	return askOwner[json.RawMessage](ctx, m.node, m.home, methodSteer, steerAsk{m.actor, m.id, action, body})
}

// Primitives lists the uses of primitives as the node that holds the record has them.
func (m *mirror) Primitives(ctx context.Context) ([]surfaces.UseRecord, error) {
	return askOwner[[]surfaces.UseRecord](ctx, m.node, m.home, methodUses, callAsk{m.actor, m.id})
}

// AnswerPrimitive hands the outcome of a primitive on.
func (m *mirror) AnswerPrimitive(ctx context.Context, seq string, body []byte) error {
	_, err := askOwner[nothing](ctx, m.node, m.home, methodPrimitive, primitiveAsk{m.actor, m.id, seq, body})
	return err
}
