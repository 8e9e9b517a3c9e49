package member

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/mesh"
)

// The wait for a voter that is connected and does not answer is bounded, so that the next one
// is asked.
func TestAVoterThatDoesNotAnswerIsGivenUp(t *testing.T) {
	t.Parallel()
	m, err := open(t, t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	voter := certs.Identity{Cluster: m.Cluster(), Role: certs.RoleNode, ID: "n2"}
	_, addr := meshOf(t, issuedBy(t, m, voter), map[string]mesh.Method{methodShare: {
		Roles: []certs.Role{certs.RoleNode}, Class: mesh.Control,
		Handle: func(ctx context.Context, _ *mesh.Stream) error { <-ctx.Done(); return ctx.Err() },
	}}, nil)
	here, _ := meshOf(t, m.Credentials(), nil, map[string]string{voter.ID: addr})
	m.Attach(here, nil)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := askVoter[sealed](ctx, m, "n2", methodShare, struct{}{}); !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		t.Errorf("got %v, want that the wait is over before its caller's", err)
	}
}
