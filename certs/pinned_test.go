package certs

import (
	"crypto/tls"
	"errors"
	"testing"
	"time"
)

func TestPinnedClientRefuses(t *testing.T) {
	a, stranger := authority(t), authority(t)
	// served is a server that shows a chain of its own choice.
	served := func(cert tls.Certificate, more ...[]byte) *tls.Config {
		cert.Certificate = append(cert.Certificate, more...)
		return &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{JoinProtocol}, Certificates: []tls.Certificate{cert}}
	}
	root := a.Root().Raw
	many := make([][]byte, maxChain)
	for i := range many {
		many[i] = root
	}
	both := extUse{1, 2} // server and client
	for what, c := range map[string]struct {
		server *tls.Config
		want   error
	}{
		"another mesh":               {member(t, stranger, node("n1")).JoinServer(JoinProtocol), ErrWrongPin},
		"another mesh, our root":     {served(issue(t, stranger, node("n1")), root), ErrUntrusted},
		"its root not shown":         {served(issue(t, a, node("n1"))), ErrWrongPin},
		"a linked machine":           {served(issue(t, a, Identity{cluster, RoleLink, "l"}), root), ErrWrongUse},
		"a link made server":         {served(forge(t, a, forged{names: []string{"locus://" + cluster + "/link/l"}, use: both}), root), ErrWrongRole},
		"of another cluster":         {served(forge(t, a, forged{names: []string{"locus://other/node/n"}, use: both}), root), ErrWrongCluster},
		"expired":                    {served(issueAt(t, a, node("n1"), time.Now().Add(-50*time.Hour), time.Hour), root), ErrExpired},
		"the root as a server":       {served(tls.Certificate{Certificate: [][]byte{root}, PrivateKey: a.key}), ErrBadIdentity},
		"a flood of certificates":    {served(issue(t, a, node("n1")), many...), ErrUntrusted},
		"a root that is half forged": {served(issue(t, stranger, node("n1")), half(t, a, stranger)), ErrWrongPin},
	} {
		t.Run(what, func(t *testing.T) {
			m := meet(t, c.server, PinnedClient(PinOf(a.Root()), JoinProtocol))
			if !errors.Is(m.client, c.want) {
				t.Errorf("%v, want %v", m.client, c.want)
			}
		})
	}
}

// half is a certificate with the key of a's root, signed by another's.
func half(t *testing.T, a, by *Authority) []byte {
	t.Helper()
	cross, err := by.CrossSign(a.Root(), time.Now())
	return must(t, cross, err)
}

// A token of before the rotation is good until the root that it names is dropped.
func TestOldPinThroughTheCrossSignature(t *testing.T) {
	old, next := rotated(t)
	pin := PinOf(old.Root())
	gate := member(t, old, node("n1"))
	door := gate.JoinServer(JoinProtocol)
	knock := func() error { return meet(t, door, PinnedClient(pin, JoinProtocol)).client }

	if err := knock(); err != nil {
		t.Errorf("steady: %v", err)
	}
	must(t, 0, gate.SetTrust(trustIn(old, next)))
	if err := knock(); err != nil {
		t.Errorf("trust_both: %v", err)
	}
	must(t, 0, gate.SetTrust(trustIn(next, old)))
	if err := knock(); err != nil {
		t.Errorf("issue_new, old certificate: %v", err)
	}
	must(t, 0, gate.Replace(issue(t, next, node("n1"))))
	m := meet(t, door, PinnedClient(pin, JoinProtocol))
	if m.err() != nil {
		t.Fatalf("issue_new, new certificate: %v", m.err())
	}
	if learned, err := pin.Verify(m.atClient, time.Now()); err != nil || !learned.Root.Equal(old.Root()) {
		t.Errorf("learned %+v, %v", learned, err)
	}
	must(t, 0, gate.SetTrust(trustIn(next)))
	if err := knock(); !errors.Is(err, ErrWrongPin) {
		t.Errorf("dropped: %v", err)
	}
	pin = PinOf(next.Root())
	if err := knock(); err != nil {
		t.Errorf("a new token: %v", err)
	}
}
