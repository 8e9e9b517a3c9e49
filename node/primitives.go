package node

import (
	"context"

	"github.com/locusrun/locus/node/calls"
	"github.com/locusrun/locus/node/primitives"
	"github.com/locusrun/locus/surfaces"
)

// ledger makes the ledger of a call with its record on this node. attended says that the
// caller may answer uses.
func (n *Node) ledger(ctx context.Context, r *calls.Record, attended bool) *primitives.Ledger {
	c := &functionProvider{node: n, caller: r, sink: r, limiter: new(depthLimiter), budget: primitives.NewBudget(r.Call.PrimitivesLimit)}
	return c.ledger(ctx, attended)
}

// providers returns what this node offers to a call's code by namespace, without stored
// functions.
func (n *Node) providers(r *calls.Record) map[string]primitives.Provider {
	return providersOf(n.serversOf(n.registry.View(), r.Actor))
}

// withUsage ends a call's ledger and adds its usage and display to the result.
func withUsage(l *primitives.Ledger, res surfaces.Result) surfaces.Result {
	l.End()
	if used := l.Count(); used > 0 {
		usage := surfaces.Usage{}
		if res.Usage != nil {
			usage = *res.Usage
		}
		usage.Primitives = used
		res.Usage = &usage
	}
	res.Display = append(l.Display(), res.Display...)
	return res
}

// hostOf returns the host of a call with its record here that runs on the given other node;
// nil if there is none.
func (n *Node) hostOf(node, actor, callID string) surfaces.Host {
	to, ok := n.routes.get(callID)
	r := n.calls.Get(actor, callID)
	if !ok || to.node != node || r == nil || r.Ledger() == nil {
		return nil
	}
	return r.Ledger()
}

// AnswerPrimitive takes the caller's answer to a primitive that it was asked to perform.
func (e *execution) AnswerPrimitive(_ context.Context, seq string, body []byte) error {
	return e.Ledger().Answer(seq, body)
}

// Primitives lists the uses of primitives so far.
func (e *execution) Primitives(context.Context) ([]surfaces.UseRecord, error) {
	return e.Ledger().Record(), nil
}
