package node

import (
	"context"
	"slices"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// This node's view of the registry may be behind what another node has already told its
// caller. If the view allows a call that is safe, because the owner or the registry checks
// it again. If the view refuses a call, it is checked once more against a view that is
// certainly current.

// freshTimeout bounds the wait for a current view. Without one the refusal stands.
const freshTimeout = 2 * time.Second

// staleCodes are the codes of refusals that a newer view may lift.
var staleCodes = []surfaces.Code{
	surfaces.CodeSessionNotFound, surfaces.CodeSessionMismatch, surfaces.CodeSessionLimit, surfaces.CodeVenvNotFound,
	surfaces.CodeMachineNotLinked, surfaces.CodeMachineRequired, surfaces.CodeUnsupportedLanguage,
}

// resolveFresh checks a call, and checks it again against a current view if it is refused.
func resolveFresh[T any](ctx context.Context, n *Node, judge func() (T, *surfaces.Refusal)) (T, *surfaces.Refusal) {
	got, refusal := judge()
	if refusal == nil || !slices.Contains(staleCodes, refusal.Code) || !n.refresh(ctx) {
		return got, refusal
	}
	return judge()
}

// refresh makes the local view current: it then has everything that any caller was told
// before. It reports false if nothing can have changed or the registry does not answer.
func (n *Node) refresh(ctx context.Context) bool {
	if n.registry.Leading() {
		return false // the leader's view is always current
	}
	ctx, cancel := context.WithTimeout(ctx, freshTimeout)
	defer cancel()
	_, err := n.registry.Fresh(ctx)
	if err != nil {
		n.cfg.Log.Debug("the registry could not be read afresh", "error", err)
	}
	return err == nil
}
