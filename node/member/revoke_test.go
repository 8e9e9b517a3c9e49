package member

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/registry"
)

// meshOf opens a mesh on loopback with credentials, and returns its address.
func meshOf(t *testing.T, credentials *certs.Credentials, methods map[string]mesh.Method, peers map[string]string) (m *mesh.Mesh, addr string) {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	m, err = mesh.Open(mesh.Config{
		Conn: conn, Credentials: credentials, Methods: methods, Log: slog.New(slog.DiscardHandler),
		Locate: func(id string) string { return peers[id] },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m, conn.LocalAddr().String()
}

// issuedBy returns credentials of another node of m's mesh.
func issuedBy(t *testing.T, m *Member, id certs.Identity) *certs.Credentials {
	t.Helper()
	key, err := certs.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	chain, err := m.issuing().Issue(id, key.Public(), time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	credentials, err := certs.NewCredentials(tls.Certificate{Certificate: chain, PrivateKey: key}, m.Credentials().Trust())
	if err != nil {
		t.Fatal(err)
	}
	return credentials
}

// A revocation is enforced although the number of revocations stays the same: an old one is
// removed by the command that adds it.
func TestARevocationThatReplacesAnOldOneIsEnforced(t *testing.T) {
	m, err := open(t, t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	r, err := registry.Open(t.Context(), registry.Config{Dir: t.TempDir(), NodeID: m.ID(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	held, dropped := make(chan struct{}), make(chan struct{})
	here, addr := meshOf(t, m.Credentials(), map[string]mesh.Method{"hold": {
		Roles: []certs.Role{certs.RoleNode}, Class: mesh.Data, Handle: func(ctx context.Context, _ *mesh.Stream) error {
			close(held)
			<-ctx.Done()
			close(dropped)
			return ctx.Err()
		},
	}}, nil)
	m.Attach(here, r)

	other := certs.Identity{Cluster: m.Cluster(), Role: certs.RoleNode, ID: "n2"}
	there, _ := meshOf(t, issuedBy(t, m, other), nil, map[string]string{string(m.ID()): addr})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := there.Stream(ctx, string(m.ID()), "hold")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Cancel()
	if err := s.Send([]byte("x")); err != nil {
		t.Fatal(err)
	}
	<-held

	revoke := func(id certs.Identity, until time.Time) {
		t.Helper()
		if _, err := r.RevokeIdentity(ctx, registry.RevokeIdentity{URI: id.String(), Until: registry.At(until)}); err != nil {
			t.Fatal(err)
		}
		if err := m.maintain(ctx, r.View()); err != nil {
			t.Fatal(err)
		}
	}
	gone := certs.Identity{Cluster: m.Cluster(), Role: certs.RoleNode, ID: "gone"}
	revoke(gone, time.Now().Add(-30*24*time.Hour))
	select {
	case <-dropped:
		t.Fatal("the connection was dropped before the revocation")
	default:
	}
	revoke(other, time.Now().Add(time.Hour))
	if r.View().Revoked(gone.String()) {
		t.Fatal("the old revocation is still there")
	}
	select {
	case <-dropped:
	case <-ctx.Done():
		t.Error("the revoked node is still connected")
	}
}
