package node

import (
	"context"
	"errors"

	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

// fault converts an error to a refusal. An error that is neither a refusal nor a missing
// quorum is an internal one: it is logged under an id, and the caller gets only the id.
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
		// The caller has gone and reads no answer.
		n.cfg.Log.Debug("a request was given up", "id", id, "error", err)
	} else {
		n.cfg.Log.Error("a fault of the node", "id", id, "error", err)
	}
	return surfaces.Internal(id)
}

// unavailable converts the registry's error for a missing quorum to a refusal.
func unavailable(err error) error {
	if !errors.Is(err, registry.ErrUnavailable) && !errors.Is(err, registry.ErrUnknownOutcome) {
		return err
	}
	return &surfaces.Refusal{Code: surfaces.CodeNoQuorum, RetryAfterS: 1, Message: registry.Reason(err)}
}
