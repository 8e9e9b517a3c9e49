package member

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/node/peer"
)

// ErrNotAccepted: the other nodes no longer accept this one.
var ErrNotAccepted = errors.New("member: the mesh does not accept this node any more")

// CheckAccepted asks the known nodes whether they accept this one. It returns ErrNotAccepted if
// some refuse its certificate and none accepts it; nil also if none can be reached.
func (m *Member) CheckAccepted(ctx context.Context, on *mesh.Mesh) error {
	refused := false
	for _, other := range m.Nodes() {
		if other.ID == string(m.ID()) {
			continue
		}
		_, err := peer.CallJSON[report](ctx, on, other.ID, methodReport, struct{}{})
		if err == nil {
			return nil
		}
		refused = refused || errors.Is(err, mesh.ErrRejected) || errors.Is(err, mesh.ErrRevoked)
	}
	if !refused {
		return nil
	}
	why := "it was removed, or its certificate is of a root that the mesh has dropped"
	if now, end := time.Now(), m.credentials.Leaf().NotAfter; now.After(end) {
		why = fmt.Sprintf("its certificate ended on %s, while it was down", end.Format(time.DateTime))
	}
	return fmt.Errorf("%w: %s; to come back it must join anew, with a fresh data directory and a token of locus token create --role node", ErrNotAccepted, why)
}
