package node

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/locusrun/locus/agentlink"
	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/node/member"
	"github.com/locusrun/locus/node/peer"
)

// This lists every method that a node serves to others, with the roles that may call it.
// Nothing else is served.
func TestMethodsAndTheirRoles(t *testing.T) {
	m, err := member.Open(t.Context(), member.Config{Dir: t.TempDir(), ID: "n", Log: slog.New(slog.DiscardHandler)}, false)
	if err != nil {
		t.Fatal(err)
	}
	n := &Node{network: network{member: m}, serving: peer.NewServer(peer.ServerConfig{}), link: agentlink.NewHub(agentlink.HubConfig{})}
	// The methods that a linked machine may call.
	machines := []string{"link/attach", "link/call", "link/renew", "link/leave"}
	want := map[string]mesh.Class{
		"registry/ask": mesh.Control, "nodes/admit": mesh.Control,
		"member/issue": mesh.Control, "member/renew": mesh.Control, "member/share": mesh.Control,
		"member/report": mesh.Control, "member/vouch": mesh.Control, "member/recover": mesh.Control,
		"calls/execute": mesh.Data, "calls/alive": mesh.Control, "calls/follow": mesh.Data, "calls/steer": mesh.Data, "calls/primitive": mesh.Data,
		"calls/host": mesh.Data, "calls/uses": mesh.Data, "calls/whole": mesh.Data,
		"calls/find": mesh.Data, "calls/list": mesh.Data,
		"sessions/status": mesh.Data, "sessions/inspect": mesh.Data, "sessions/reset": mesh.Data, "sessions/fork": mesh.Data, "sessions/end": mesh.Data,
		"events/follow": mesh.Data, "events/after": mesh.Data,
		"audit/read": mesh.Data, "audit/follow": mesh.Data, "audit/verify": mesh.Data, "audit/witness": mesh.Control, "audit/witnessed": mesh.Data,
		"machines/offer": mesh.Control, "machines/relay": mesh.Control,
		"link/attach": mesh.Data, "link/call": mesh.Control, "link/renew": mesh.Control, "link/leave": mesh.Control,
	}
	got := n.methods()
	for name, method := range got {
		class, ok := want[name]
		if !ok {
			t.Errorf("%s is served and not in this table", name)
		}
		if method.Class != class {
			t.Errorf("%s travels as %s, want %s", name, method.Class, class)
		}
		for _, role := range []certs.Role{certs.RoleNode, certs.RoleVM, certs.RoleLink} {
			may := slices.Contains(method.Roles, role)
			if may != (slices.Contains(machines, name) != (role == certs.RoleNode)) {
				t.Errorf("%s may call %s: %v", role, name, may)
			}
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d methods are served, want %d", len(got), len(want))
	}
}
