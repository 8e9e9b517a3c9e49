package node

import (
	"context"
	"encoding/json"
	"sync"
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
	ctx   context.Context // of the request that looked the call up

	once   sync.Once
	record *calls.Record
}

var _ gateway.Execution = (*mirror)(nil)

// findElsewhere looks for a call on the other nodes. A node that holds the call's
// record is preferred to one that only runs it, which may be of a lost attempt. silent
// are those that did not answer.
func (n *Node) findElsewhere(ctx context.Context, actor, callID string) (best *mirror, silent []registry.NodeID) {
	answers := askOthers[found](ctx, n, methodFind, findAsk{actor, callID})
	for id, f := range answers {
		if f.Here && (best == nil || !f.Guest) {
			best = &mirror{node: n, home: id, guest: f.Guest, actor: actor, id: callID, found: f.Result, ctx: ctx}
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
	if m.record != nil && m.record.Ended() {
		return m.record.Result()
	}
	return m.found
}

// copied begins to copy what the call says.
func (m *mirror) copied() *calls.Record {
	m.once.Do(func() {
		r := calls.NewRecord(m.id, surfaces.Call{Actor: m.actor}, func() {})
		m.record = r
		m.node.work.Go(func() {
			res, err := peer.Follow(m.ctx, m.node.mesh, string(m.home), m.actor, m.id, r)
			if err != nil {
				res = surfaces.Failed(surfaces.Partial{CallID: m.id, Node: string(m.home), Attempts: 1, DurationMS: float64(time.Since(r.Started).Milliseconds())},
					surfaces.CodeOutcomeUnknown, "node "+string(m.home)+", which holds the call, cannot be reached any more; the call may go on there")
			}
			r.Finish(res)
		})
	})
	return m.record
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
	return askOwner[[]surfaces.UseRecord](ctx, m.node, m.home, methodUses, usesAsk{m.actor, m.id})
}

// AnswerPrimitive hands the outcome of a primitive on.
func (m *mirror) AnswerPrimitive(ctx context.Context, seq string, body []byte) error {
	_, err := askOwner[nothing](ctx, m.node, m.home, methodPrimitive, primitiveAsk{m.actor, m.id, seq, body})
	return err
}
