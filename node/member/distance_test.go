package member

import (
	"slices"
	"testing"
	"time"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/mesh"
)

// A node that is too far away for the mesh's timeouts is reported once, and again only after
// it was near or gone.
func TestDistantNodesAreReported(t *testing.T) {
	peer := func(role certs.Role, id string, rtt time.Duration) mesh.PeerInfo {
		return mesh.PeerInfo{Peer: certs.Identity{Role: role, ID: id}, MinRTT: rtt, RTT: time.Minute}
	}
	d := distances{most: 200 * time.Millisecond}
	for i, step := range []struct {
		peers []mesh.PeerInfo
		want  []string
	}{
		{nil, nil},
		{[]mesh.PeerInfo{peer(certs.RoleNode, "near", 200*time.Millisecond), peer(certs.RoleLink, "machine", time.Second)}, nil},
		{[]mesh.PeerInfo{peer(certs.RoleNode, "far", 201*time.Millisecond), peer(certs.RoleNode, "far", 202*time.Millisecond)}, []string{"far"}},
		{[]mesh.PeerInfo{peer(certs.RoleNode, "far", 201*time.Millisecond)}, nil},
		{nil, nil},
		{[]mesh.PeerInfo{peer(certs.RoleNode, "far", 201*time.Millisecond)}, []string{"far"}},
	} {
		var got []string
		d.check(step.peers, func(node string, _ time.Duration) { got = append(got, node) })
		if !slices.Equal(got, step.want) {
			t.Errorf("step %d reports %v, want %v", i, got, step.want)
		}
	}
}
