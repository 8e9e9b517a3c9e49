package node

import (
	"context"
	"errors"

	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

// fault turns an error into a refusal. What is neither one nor the registry's want of a
// quorum is a fault of ours, which is logged under an id.
func (n *Node) fault(err error) *surfaces.Refusal {
	var refusal *surfaces.Refusal
	if errors.As(err, &refusal) {
		return refusal
	}
	if errors.As(unavailable(err), &refusal) {
		n.cfg.Log.Warn("the registry did not take a change", "error", err)
		return refusal
	}
	id := newSecret("fault-")
	if errors.Is(err, context.Canceled) {
		// Whoever asked has gone, and hears no answer.
		n.cfg.Log.Debug("a request was given up", "id", id, "error", err)
	} else {
		n.cfg.Log.Error("a fault of the node", "id", id, "error", err)
	}
	return surfaces.Internal(id)
}

// unavailable turns a failure of the registry into what the caller is told.
func unavailable(err error) error {
	if !errors.Is(err, registry.ErrUnavailable) && !errors.Is(err, registry.ErrUnknownOutcome) {
		return err
	}
	return &surfaces.Refusal{Code: surfaces.CodeNoQuorum, RetryAfterS: 1, Message: registry.Reason(err)}
}
