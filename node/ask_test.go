package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/node/gateway"
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

// An owner that is connected and does not answer is waited for with a bound, whatever the
// caller's own patience.
func TestVirtualOwnerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newVirtual(t, 1)
		v.grow(3)
		v.createSession("n1")
		v.appendToken(v.at("n1"), "a", 1)
		stuck := make(chan struct{})
		defer close(stuck)
		v.kernels.inspecting = func(context.Context) { <-stuck }
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		_, err := v.at("n2").InspectState(ctx, gateway.Caller{Actor: "a"}, []byte(`{"session_name": "s0"}`))
		var refusal *surfaces.Refusal
		if !errors.As(err, &refusal) || refusal.Code != surfaces.CodeOwnerUnreachable {
			t.Errorf("got %v, want %s", err, surfaces.CodeOwnerUnreachable)
		}
		if took := time.Since(began); took > ownerWithin+time.Second {
			t.Errorf("the answer came after %s", took)
		}
	})
}
