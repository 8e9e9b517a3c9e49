package certs

import (
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const cluster = "8f14e45f-ceea-467f"

func must[T any](t testing.TB, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// authority gives one that is old enough to have issued what has expired since.
func authority(t testing.TB) *Authority {
	t.Helper()
	a, err := NewAuthority(cluster, time.Now().Add(-10*24*time.Hour))
	return must(t, a, err)
}

func node(name string) Identity { return Identity{cluster, RoleNode, name} }

// issue gives a certificate with its key, of the default life from now on.
func issue(t testing.TB, a *Authority, id Identity) tls.Certificate {
	t.Helper()
	return issueAt(t, a, id, time.Now(), DefaultLifetime)
}

func issueAt(t testing.TB, a *Authority, id Identity, now time.Time, life time.Duration) tls.Certificate {
	t.Helper()
	key, err := NewKey()
	must(t, key, err)
	chain, err := a.Issue(id, key.Public(), now, life)
	return tls.Certificate{Certificate: must(t, chain, err), PrivateKey: key}
}

// member gives the credentials of a member that believes its own issuer.
func member(t testing.TB, a *Authority, id Identity, options ...Option) *Credentials {
	t.Helper()
	c, err := NewCredentials(issue(t, a, id), trustIn(a), options...)
	return must(t, c, err)
}

func trustIn(list ...*Authority) (trust Trust) {
	for _, a := range list {
		trust.Roots = append(trust.Roots, a.Root())
	}
	return trust
}

// meeting is how a connection went at both ends: shaken hands, and one byte each
// way.
type meeting struct {
	client, server       error
	atClient, atServer   tls.ConnectionState
	clientAsk, serverAsk []byte // exporter values
}

func (m meeting) err() error { return errors.Join(m.client, m.server) }

// meet connects two configs over loopback. A net.Pipe would not do: it buffers
// nothing, so two ends that both write, one of them an alert, would wait for each
// other.
func meet(t testing.TB, server, client *tls.Config) (m meeting) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, listener, err)
	defer listener.Close()
	near, err := net.Dial("tcp", listener.Addr().String())
	must(t, near, err)
	defer near.Close()
	far, err := listener.Accept()
	must(t, far, err)
	deadline := time.Now().Add(time.Minute)
	near.SetDeadline(deadline)
	far.SetDeadline(deadline)
	served := make(chan struct{})
	go func() {
		defer close(served)
		defer far.Close()
		s := tls.Server(far, server)
		// The server speaks first: a client learns only then that it is refused.
		if m.server = s.Handshake(); m.server == nil {
			_, m.server = s.Write([]byte{1})
		}
		if m.server == nil {
			_, m.server = io.ReadFull(s, make([]byte, 1))
		}
		if m.server == nil {
			m.atServer = s.ConnectionState()
			m.serverAsk, m.server = Exporter(m.atServer)
		}
	}()
	c := tls.Client(near, client)
	if m.client = c.Handshake(); m.client == nil {
		_, m.client = io.ReadFull(c, make([]byte, 1))
	}
	if m.client == nil {
		_, m.client = c.Write([]byte{2})
	}
	if m.client == nil {
		m.atClient = c.ConnectionState()
		m.clientAsk, m.client = Exporter(m.atClient)
	}
	near.Close()
	<-served
	return m
}

func newKey(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	key, err := NewKey()
	return must(t, key, err)
}

// chainOf gives what a member shows to its peers.
func chainOf(t testing.TB, c *Credentials) (chain []*x509.Certificate) {
	t.Helper()
	for _, der := range c.Certificate().Certificate {
		cert, err := x509.ParseCertificate(der)
		chain = append(chain, must(t, cert, err))
	}
	return chain
}
