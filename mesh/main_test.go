package mesh

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/locusrun/locus/certs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a cluster: its authority, and the addresses of its members.
type world struct {
	t         testing.TB
	authority *certs.Authority
	socket    func(id string) net.PacketConn

	mu    sync.Mutex
	addrs map[string]string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	authority, err := certs.NewAuthority("test", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, authority: authority, addrs: map[string]string{}, socket: func(string) net.PacketConn {
		conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}}
}

func (w *world) locate(id string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.addrs[id]
}

func (w *world) credentials(role certs.Role, id string) *certs.Credentials {
	w.t.Helper()
	key, err := certs.NewKey()
	if err != nil {
		w.t.Fatal(err)
	}
	who := certs.Identity{Cluster: w.authority.Cluster(), Role: role, ID: id}
	chain, err := w.authority.Issue(who, key.Public(), time.Now(), 24*time.Hour)
	if err != nil {
		w.t.Fatal(err)
	}
	credentials, err := certs.NewCredentials(
		tls.Certificate{Certificate: chain, PrivateKey: key},
		certs.Trust{Roots: []*x509.Certificate{w.authority.Root()}},
	)
	if err != nil {
		w.t.Fatal(err)
	}
	return credentials
}

// start opens a mesh that others can locate by its id.
func (w *world) start(role certs.Role, id string, methods map[string]Method, change ...func(*Config)) *Mesh {
	w.t.Helper()
	cfg := Config{
		Conn:        w.socket(id),
		Credentials: w.credentials(role, id),
		Methods:     methods,
		Locate:      w.locate,
		Log:         slog.New(slog.DiscardHandler),
	}
	for _, f := range change {
		f(&cfg)
	}
	m, err := Open(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := m.Close(); err != nil {
			w.t.Errorf("close %s: %v", id, err)
		}
	})
	w.mu.Lock()
	w.addrs[id] = m.Addr().String()
	w.mu.Unlock()
	return m
}

func (w *world) node(id string, methods map[string]Method, change ...func(*Config)) *Mesh {
	w.t.Helper()
	return w.start(certs.RoleNode, id, methods, change...)
}

// within returns a context with a timeout far longer than anything here takes.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// method returns a Method for nodes that answers one message with one message.
func method(class Class, f func(ctx context.Context, request []byte) ([]byte, error)) Method {
	return Method{Roles: []certs.Role{certs.RoleNode}, Class: class, Handle: func(ctx context.Context, s *Stream) error {
		request, err := s.Receive()
		if err != nil {
			return err
		}
		reply, err := f(ctx, request)
		if err != nil {
			return err
		}
		return s.Send(reply)
	}}
}

func echo(_ context.Context, request []byte) ([]byte, error) { return request, nil }
