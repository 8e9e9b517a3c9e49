package node

import (
	"context"
	"slices"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// A node's view of the registry may be a moment behind what another node has told
// its caller. That is safe where the view allows a call, because the owner or the
// registry judges the call again. Where the view refuses one, the call is judged once
// more by a view that is surely not behind.

// freshWithin bounds the wait for such a view. Without one the refusal stands.
const freshWithin = 2 * time.Second

// fickle are the codes of refusals that a newer view may not give any more.
var fickle = []surfaces.Code{
	surfaces.CodeSessionNotFound, surfaces.CodeSessionMismatch, surfaces.CodeSessionLimit, surfaces.CodeVenvNotFound,
	surfaces.CodeMachineNotLinked, surfaces.CodeMachineRequired, surfaces.CodeUnsupportedLanguage,
}

// judged gives what the law says, once more in a fresh view when it refuses.
func judged[T any](ctx context.Context, n *Node, judge func() (T, *surfaces.Refusal)) (T, *surfaces.Refusal) {
	got, refusal := judge()
	if refusal == nil || !slices.Contains(fickle, refusal.Code) || !n.refresh(ctx) {
		return got, refusal
	}
	return judge()
}

// refresh sees to it that the node's view has everything that any caller was told
// before. It reports false when the registry cannot tell.
func (n *Node) refresh(ctx context.Context) bool {
	if n.registry.Leading() {
		return false // its view is never behind
	}
	ctx, cancel := context.WithTimeout(ctx, freshWithin)
	defer cancel()
	_, err := n.registry.Fresh(ctx)
	if err != nil {
		n.cfg.Log.Debug("the registry could not be read afresh", "error", err)
	}
	return err == nil
}
