package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

// Messages for people explain why a node or the registry did not answer, without internal
// error texts.
func TestUnavailabilityIsExplained(t *testing.T) {
	said := map[string]bool{}
	for _, cause := range []error{
		context.DeadlineExceeded, mesh.ErrClosed, mesh.ErrUnknownPeer, mesh.ErrDraining, mesh.ErrForbidden, mesh.ErrUnknownMethod, mesh.ErrBusy,
		mesh.ErrVersion, mesh.ErrRejected, mesh.ErrRevoked, mesh.ErrStalled, errors.New("timeout: no recent network activity"),
	} {
		for _, sent := range []bool{false, true} {
			said[unreachableReason(&mesh.UnreachableError{Peer: "n2", Sent: sent, Cause: cause})] = true
		}
	}
	said[unreachableReason(&mesh.Error{Code: mesh.CodeInternal, Message: "mesh: internal"})] = true
	said[unreachableReason(fmt.Errorf("mesh: asked: %w", context.DeadlineExceeded))] = true
	for _, err := range []error{registry.ErrUnavailable, registry.ErrNoQuorum, &registry.UnknownOutcomeError{Cause: context.DeadlineExceeded}, &registry.UnknownOutcomeError{Cause: context.Canceled}} {
		var refusal *surfaces.Refusal
		if !errors.As(unavailable(err), &refusal) {
			t.Fatalf("%v is no refusal", err)
		}
		said[refusal.Message] = true
	}
	for text := range said {
		for _, raw := range []string{"mesh: ", "registry: ", "context", "internal", "n2", "timeout"} {
			if strings.Contains(text, raw) {
				t.Errorf("%q shows %q", text, raw)
			}
		}
	}
	if refused := unreachableReason(&surfaces.Refusal{Message: "the log is being walked over already"}); refused != "the log is being walked over already" {
		t.Errorf("what the node says itself became %q", refused)
	}
}
