package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestMembersAuthenticateEachOther(t *testing.T) {
	a := authority(t)
	server, client := member(t, a, node("n1")), member(t, a, Identity{cluster, RoleLink, "laptop"})
	m := meet(t, server.Server("p/1"), client.Client(func(id Identity) error {
		if id != server.Identity() {
			return errors.New("another node")
		}
		return nil
	}, "p/1"))
	if m.err() != nil {
		t.Fatal(m.err())
	}
	if id, err := PeerOf(m.atServer); err != nil || id != client.Identity() {
		t.Errorf("the server met %v, %v", id, err)
	}
	if id, err := PeerOf(m.atClient); err != nil || id != server.Identity() {
		t.Errorf("the client met %v, %v", id, err)
	}
	if !bytes.Equal(m.clientAsk, m.serverAsk) || len(m.clientAsk) != ExporterSize {
		t.Error("the ends export different values")
	}
	if again := meet(t, server.Server("p/1"), client.Client(nil, "p/1")); bytes.Equal(again.clientAsk, m.clientAsk) {
		t.Error("two connections export one value")
	}
}

func TestServerRefuses(t *testing.T) {
	a, stranger := authority(t), authority(t)
	server := member(t, a, node("n1"))
	server.SetRevoked(func(id Identity) bool { return id.ID == "revoked" })
	old := time.Now().Add(-50 * time.Hour)
	client := extUse{x509.ExtKeyUsageClientAuth}
	for name, c := range map[string]struct {
		cert tls.Certificate
		want error
	}{
		"an unknown root":          {issue(t, stranger, node("n2")), ErrUntrusted},
		"self-signed":              {forge(t, nil, forged{names: []string{node("n2").String()}, use: client}), ErrUntrusted},
		"the root itself":          {tls.Certificate{Certificate: [][]byte{a.root.Raw}, PrivateKey: a.key}, ErrBadIdentity},
		"expired":                  {issueAt(t, a, node("n2"), old, 24*time.Hour), ErrExpired},
		"from the future":          {issueAt(t, a, node("n2"), time.Now().Add(3*time.Hour), time.Hour), ErrNotYetValid},
		"another cluster":          {forge(t, a, forged{names: []string{"locus://other/node/n2"}, use: client}), ErrWrongCluster},
		"revoked":                  {issue(t, a, node("revoked")), ErrRevoked},
		"a server's use only":      {forge(t, a, forged{names: []string{node("n2").String()}, use: extUse{x509.ExtKeyUsageServerAuth}}), ErrWrongUse},
		"no stated use":            {forge(t, a, forged{names: []string{node("n2").String()}}), ErrWrongUse},
		"any use":                  {forge(t, a, forged{names: []string{node("n2").String()}, use: extUse{x509.ExtKeyUsageAny}}), ErrWrongUse},
		"one that may sign others": {forge(t, a, forged{names: []string{node("n2").String()}, use: client, ca: true}), ErrWrongUse},
		"two names":                {forge(t, a, forged{names: []string{node("n2").String(), node("n3").String()}, use: client}), ErrBadIdentity},
		"no name":                  {forge(t, a, forged{use: client}), ErrBadIdentity},
		"an unknown role":          {forge(t, a, forged{names: []string{"locus://" + cluster + "/admin/n2"}, use: client}), ErrBadIdentity},
		"a role in capitals":       {forge(t, a, forged{names: []string{"locus://" + cluster + "/Node/n2"}, use: client}), ErrBadIdentity},
		"a query":                  {forge(t, a, forged{names: []string{node("n2").String() + "?x"}, use: client}), ErrBadIdentity},
		"another DNS name":         {forge(t, a, forged{names: []string{node("n2").String()}, dns: []string{"example.org"}, use: client}), ErrBadIdentity},
		"a DNS name more":          {forge(t, a, forged{names: []string{node("n2").String()}, dns: []string{ServerName, "x"}, use: client}), ErrBadIdentity},
	} {
		t.Run(name, func(t *testing.T) {
			m := meet(t, server.Server("p/1"), shows(c.cert, "p/1"))
			if !errors.Is(m.server, c.want) {
				t.Errorf("server: %v, want %v", m.server, c.want)
			}
			if m.client == nil {
				t.Error("the client noticed nothing")
			}
		})
	}
}

func TestServerRefusesClientsWithoutACertificate(t *testing.T) {
	server := member(t, authority(t), node("n1"))
	config := shows(tls.Certificate{}, "p/1")
	if m := meet(t, server.Server("p/1"), config); m.server == nil {
		t.Error("let in")
	}
}

func TestClientRefuses(t *testing.T) {
	a, stranger := authority(t), authority(t)
	client := member(t, a, Identity{cluster, RoleLink, "laptop"})
	client.SetRevoked(func(id Identity) bool { return id.ID == "revoked" })
	errOther := errors.New("not who was meant")
	both := extUse{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	for name, c := range map[string]struct {
		cert tls.Certificate
		want error
	}{
		"an unknown root":    {issue(t, stranger, node("n2")), ErrUntrusted},
		"expired":            {issueAt(t, a, node("n2"), time.Now().Add(-50*time.Hour), 24*time.Hour), ErrExpired},
		"another cluster":    {forge(t, a, forged{names: []string{"locus://other/node/n2"}, use: both}), ErrWrongCluster},
		"revoked":            {issue(t, a, node("revoked")), ErrRevoked},
		"a linked machine":   {issue(t, a, Identity{cluster, RoleLink, "other"}), ErrWrongUse},
		"a vm made a server": {forge(t, a, forged{names: []string{"locus://" + cluster + "/vm/x"}, use: both}), ErrWrongRole},
		"another node":       {issue(t, a, node("n3")), errOther},
	} {
		t.Run(name, func(t *testing.T) {
			server := &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"p/1"}, Certificates: []tls.Certificate{c.cert}}
			m := meet(t, server, client.Client(func(id Identity) error {
				if id.ID == "n3" {
					return errOther
				}
				return nil
			}, "p/1"))
			if !errors.Is(m.client, c.want) {
				t.Errorf("client: %v, want %v", m.client, c.want)
			}
		})
	}
}

func TestProtocolsAreKeptApart(t *testing.T) {
	a := authority(t)
	server := member(t, a, node("n1"))
	errRole := errors.New("not for links")
	doors := ByProtocol(
		server.ServerFor(func(protocol string, peer Identity) error {
			if protocol == "nodes/1" && peer.Role != RoleNode {
				return errRole
			}
			return nil
		}, "nodes/1", "links/1"),
		server.JoinServer(JoinProtocol),
	)
	link, other := member(t, a, Identity{cluster, RoleLink, "l"}), member(t, a, node("n2"))
	stranger := PinnedClient(PinOf(a.Root()), "nodes/1")
	silent := link.Client(nil)
	for name, c := range map[string]struct {
		client *tls.Config
		want   error
	}{
		"node as node":            {other.Client(nil, "nodes/1"), nil},
		"link as link":            {link.Client(nil, "links/1"), nil},
		"link as node":            {link.Client(nil, "nodes/1"), errRole},
		"joiner at the door":      {PinnedClient(PinOf(a.Root()), JoinProtocol), nil},
		"no protocol":             {silent, ErrNoProtocol},
		"old and new, one of two": {other.Client(nil, "nodes/9", "nodes/1"), nil},
	} {
		if m := meet(t, doors, c.client); !errors.Is(m.server, c.want) {
			t.Errorf("%s: %v, want %v", name, m.server, c.want)
		}
	}
	if m := meet(t, doors, stranger); m.server == nil {
		t.Error("a joiner without a certificate was let in as a node")
	}
	if m := meet(t, doors, link.Client(nil, "nodes/9")); m.server == nil || m.client == nil {
		t.Error("an unknown protocol was agreed on")
	}
	if m := meet(t, server.Server("nodes/1"), silent); !errors.Is(m.server, ErrNoProtocol) {
		t.Errorf("no protocol at a single server: %v", m.server)
	}
}

// The clocks of the mesh may be an hour off against each other, both ways, and at
// both ends of a certificate's life.
func TestWrongClocks(t *testing.T) {
	a := authority(t)
	const life = 2 * time.Hour
	for _, off := range []time.Duration{-55 * time.Minute, 0, 55 * time.Minute} {
		for _, age := range []time.Duration{0, life} {
			t.Run(fmt.Sprintf("off %v at age %v", off, age), func(t *testing.T) {
				clock := WithClock(func() time.Time { return time.Now().Add(off) })
				began := time.Now().Add(-age)
				server, err := NewCredentials(issueAt(t, a, node("n1"), began, life), trustIn(a), clock)
				must(t, server, err)
				client, err := NewCredentials(issueAt(t, a, node("n2"), began, life), trustIn(a))
				must(t, client, err)
				if m := meet(t, server.Server("p/1"), client.Client(nil, "p/1")); m.err() != nil {
					t.Error(m.err())
				}
				if m := meet(t, client.Server("p/1"), server.Client(nil, "p/1")); m.err() != nil {
					t.Error(m.err())
				}
			})
		}
	}
	ahead := member(t, a, node("n1"), WithClock(func() time.Time { return time.Now().Add(26 * time.Hour) }))
	if m := meet(t, ahead.Server("p/1"), member(t, a, node("n2")).Client(nil, "p/1")); !errors.Is(m.server, ErrExpired) {
		t.Errorf("26 h ahead: %v", m.server)
	}
	behind := member(t, a, node("n1"), WithClock(func() time.Time { return time.Now().Add(-2 * time.Hour) }))
	if m := meet(t, behind.Server("p/1"), member(t, a, node("n2")).Client(nil, "p/1")); !errors.Is(m.server, ErrNotYetValid) {
		t.Errorf("2 h behind: %v", m.server)
	}
}

func TestNoSessionIsResumed(t *testing.T) {
	a := authority(t)
	server, client := member(t, a, node("n1")).Server("p/1"), member(t, a, node("n2")).Client(nil, "p/1")
	client.ClientSessionCache = tls.NewLRUClientSessionCache(4)
	client.SessionTicketsDisabled = false
	for range 2 {
		if m := meet(t, server, client); m.err() != nil || m.atClient.DidResume {
			t.Fatalf("resumed %t, %v", m.atClient.DidResume, m.err())
		}
	}
}

// Should somebody switch tickets on, a resumed session is judged like any other.
func TestResumedSessionsAreVerified(t *testing.T) {
	a, b := authority(t), authority(t)
	for name, c := range map[string]struct {
		change func(t *testing.T, server *Credentials)
		want   error
	}{
		"nothing": {func(*testing.T, *Credentials) {}, nil},
		"revoked": {func(_ *testing.T, s *Credentials) { s.SetRevoked(func(id Identity) bool { return id == node("n2") }) }, ErrRevoked},
		"root dropped": {func(t *testing.T, s *Credentials) {
			if err := s.Renew(issue(t, b, node("n1")), trustIn(b)); err != nil {
				t.Fatal(err)
			}
		}, ErrUntrusted},
	} {
		t.Run(name, func(t *testing.T) {
			server := member(t, a, node("n1"))
			client := member(t, a, node("n2")).Client(nil, "p/1")
			client.ClientSessionCache = tls.NewLRUClientSessionCache(4)
			client.SessionTicketsDisabled = false
			config := server.Server("p/1")
			config.SessionTicketsDisabled = false
			if m := meet(t, config, client); m.err() != nil || m.atServer.DidResume {
				t.Fatalf("first: resumed %t, %v", m.atServer.DidResume, m.err())
			}
			resumed := false
			judge := config.VerifyConnection
			config.VerifyConnection = func(state tls.ConnectionState) error {
				resumed = state.DidResume
				return judge(state)
			}
			c.change(t, server)
			m := meet(t, config, client)
			if !resumed {
				t.Fatal("the session was not resumed; the test shows nothing")
			}
			if !errors.Is(m.server, c.want) {
				t.Errorf("%v, want %v", m.server, c.want)
			}
		})
	}
}

// Configs made once serve what the credentials are at each handshake.
func TestConfigsFollowTheCredentials(t *testing.T) {
	a := authority(t)
	server, client := member(t, a, node("n1")), member(t, a, node("n2"))
	serve, dial := server.Server("p/1"), client.Client(nil, "p/1")
	for range 3 {
		for _, c := range []*Credentials{server, client} {
			if err := c.Replace(issue(t, a, c.Identity())); err != nil {
				t.Fatal(err)
			}
		}
		m := meet(t, serve, dial)
		if m.err() != nil {
			t.Fatal(m.err())
		}
		if !m.atClient.PeerCertificates[0].Equal(server.Leaf()) || !m.atServer.PeerCertificates[0].Equal(client.Leaf()) {
			t.Error("an old certificate was shown")
		}
	}
	var revoked atomic.Bool
	server.SetRevoked(func(Identity) bool { return revoked.Load() })
	if m := meet(t, serve, dial); m.err() != nil {
		t.Error(m.err())
	}
	revoked.Store(true)
	if m := meet(t, serve, dial); !errors.Is(m.server, ErrRevoked) {
		t.Errorf("revoked: %v", m.server)
	}
	server.SetRevoked(nil)
	if m := meet(t, serve, dial); m.err() != nil {
		t.Error(m.err())
	}
}

func TestChangesBesideHandshakes(t *testing.T) {
	a := authority(t)
	server, client := member(t, a, node("n1")), member(t, a, node("n2"))
	serve, dial := server.Server("p/1"), client.Client(nil, "p/1")
	done := make(chan struct{})
	var changes sync.WaitGroup
	for _, c := range []*Credentials{server, client} {
		certs := []tls.Certificate{issue(t, a, c.Identity()), issue(t, a, c.Identity())}
		changes.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				if err := errors.Join(c.Replace(certs[i%2]), c.SetTrust(trustIn(a))); err != nil {
					t.Error(err)
					return
				}
				c.SetRevoked(func(Identity) bool { return false })
			}
		})
	}
	for range 20 {
		if m := meet(t, serve, dial); m.err() != nil {
			t.Error(m.err())
		}
	}
	close(done)
	changes.Wait()
}

// shows is a client that shows a certificate and accepts any server.
func shows(cert tls.Certificate, protocol string) *tls.Config {
	return &tls.Config{
		MinVersion:           tls.VersionTLS13,
		NextProtos:           []string{protocol},
		InsecureSkipVerify:   true,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil },
	}
}

type extUse = []x509.ExtKeyUsage

// forged is a certificate as no Authority of ours would issue it.
type forged struct {
	names []string
	dns   []string
	use   extUse
	ca    bool
}

// forge signs one by an authority's key, or by its own if there is none.
func forge(t testing.TB, a *Authority, f forged) tls.Certificate {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           f.use,
		BasicConstraintsValid: true,
		IsCA:                  f.ca,
		DNSNames:              []string{ServerName},
	}
	if f.dns != nil {
		template.DNSNames = f.dns
	}
	for _, s := range f.names {
		u, err := url.Parse(s)
		template.URIs = append(template.URIs, must(t, u, err))
	}
	parent, signer := template, key
	if a != nil {
		parent, signer = a.root, a.key
	}
	cert, err := sign(template, parent, key.Public(), signer)
	return tls.Certificate{Certificate: [][]byte{must(t, cert, err).Raw}, PrivateKey: key}
}
