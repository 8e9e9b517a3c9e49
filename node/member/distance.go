package member

import (
	"time"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/mesh"
)

// distances reports the nodes that are too far away for the mesh's timeouts.
type distances struct {
	most time.Duration   // round trip
	far  map[string]bool // reported, and still so
}

// check calls warn for each node that has come to be too far away. It takes the shortest
// round trip of a connection, which a busy machine does not lengthen.
func (d *distances) check(peers []mesh.PeerInfo, warn func(node string, roundTrip time.Duration)) {
	far := map[string]bool{}
	for _, p := range peers {
		id := p.Peer.ID
		if p.Peer.Role != certs.RoleNode || p.MinRTT <= d.most || far[id] {
			continue
		}
		if far[id] = true; !d.far[id] {
			warn(id, p.MinRTT)
		}
	}
	d.far = far
}
