package certs

import (
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"testing"
	"time"
)

// A laptop that slept past its certificate's end and through a change of the root
// finds the mesh through the cross-signed root, and proves that it is itself.
func TestRecoverAfterALongSleep(t *testing.T) {
	old, next := rotated(t)
	laptop, err := NewCredentials(issueAt(t, old, Identity{cluster, RoleLink, "l"}, time.Now().Add(-72*time.Hour), DefaultLifetime), trustIn(old))
	must(t, laptop, err)
	gate := member(t, next, node("n1"))
	if m := meet(t, gate.Server("p/1"), laptop.Client(nil, "p/1")); m.server == nil {
		t.Fatal("an old certificate was accepted")
	}
	m := meet(t, gate.JoinServer(JoinProtocol), laptop.Client(nil, JoinProtocol))
	if m.err() != nil {
		t.Fatal(m.err())
	}
	key, nonce := newKey(t), NewNonce()
	request, err := laptop.Recover(key.Public(), nonce, m.clientAsk)
	must(t, request, err)
	ever := trustIn(next, old).Roots
	got, err := request.Verify(cluster, ever, nonce, m.serverAsk, time.Now())
	must(t, got, err)
	if got.Identity != laptop.Identity() || got.OldKey != KeyHash(laptop.Leaf().RawSubjectPublicKeyInfo) || !got.Key.(ed25519.PublicKey).Equal(key.Public()) {
		t.Errorf("recovered %+v", got)
	}
	chain, err := next.Issue(got.Identity, got.Key, time.Now(), DefaultLifetime)
	must(t, chain, err)
	must(t, 0, laptop.Renew(tls.Certificate{Certificate: chain, PrivateKey: key}, gate.Trust()))
	if m := meet(t, gate.Server("p/1"), laptop.Client(nil, "p/1")); m.err() != nil {
		t.Error(m.err())
	}
}

func TestRecoverRefuses(t *testing.T) {
	a := authority(t)
	began := time.Now().Add(-24 * time.Hour)
	ended := began.Add(time.Hour + Skew)
	c, err := NewCredentials(issueAt(t, a, node("n1"), began, time.Hour), trustIn(a))
	must(t, c, err)
	nonce, exporter := NewNonce(), NewNonce()
	good, err := c.Recover(newKey(t).Public(), nonce, exporter)
	must(t, good, err)
	thief := member(t, a, node("thief"))
	stolen, err := thief.Recover(newKey(t).Public(), nonce, exporter)
	must(t, stolen, err)
	stolen.Certificates = good.Certificates
	join, err := Token{Role: RoleNode, ID: "id"}.Request(cluster, newKey(t).Public(), nonce, exporter)
	must(t, join, err)
	type claim struct {
		request         RecoverRequest
		cluster         string
		roots           []*x509.Certificate
		nonce, exporter []byte
		now             time.Time
	}
	right := claim{good, cluster, trustIn(a).Roots, nonce, exporter, time.Now()}
	for what, c := range map[string]struct {
		change func(*claim)
		want   error
	}{
		"nothing":                  {func(*claim) {}, nil},
		"at its last moment":       {func(c *claim) { c.now = ended.Add(RecoveryWindow - time.Minute) }, nil},
		"too late":                 {func(c *claim) { c.now = ended.Add(RecoveryWindow + time.Minute) }, ErrExpired},
		"too early":                {func(c *claim) { c.now = began.Add(-2 * time.Hour) }, ErrNotYetValid},
		"another cluster":          {func(c *claim) { c.cluster = "other" }, ErrWrongCluster},
		"no roots":                 {func(c *claim) { c.roots = nil }, ErrUntrusted},
		"another root":             {func(c *claim) { c.roots = trustIn(authority(t)).Roots }, ErrUntrusted},
		"another nonce":            {func(c *claim) { c.nonce = NewNonce() }, ErrBadProof},
		"another nonce at both":    {func(c *claim) { c.nonce = NewNonce(); c.request.Nonce = c.nonce }, ErrBadProof},
		"another connection":       {func(c *claim) { c.exporter = NewNonce() }, ErrBadProof},
		"no exporter value":        {func(c *claim) { c.exporter = nil }, ErrBadProof},
		"another key":              {func(c *claim) { c.request.SPKI = stolen.SPKI }, ErrBadProof},
		"no key":                   {func(c *claim) { c.request.SPKI = nil }, ErrBadKey},
		"somebody's certificate":   {func(c *claim) { c.request = stolen }, ErrBadProof},
		"a signature for a join":   {func(c *claim) { c.request.Signature = join.Signature }, ErrBadProof},
		"no certificate":           {func(c *claim) { c.request.Certificates = nil }, ErrUntrusted},
		"rubbish as certificate":   {func(c *claim) { c.request.Certificates = [][]byte{{1}} }, ErrUntrusted},
		"a flood of certificates":  {func(c *claim) { c.request.Certificates = make([][]byte, maxChain+1) }, ErrUntrusted},
		"the root as certificate":  {func(c *claim) { c.request.Certificates = [][]byte{a.root.Raw} }, ErrBadIdentity},
		"a signature with a flip":  {func(c *claim) { c.request.Signature = flipped(c.request.Signature) }, ErrBadProof},
		"a signature that is void": {func(c *claim) { c.request.Signature = nil }, ErrBadProof},
	} {
		wrong := right
		c.change(&wrong)
		if _, err := wrong.request.Verify(wrong.cluster, wrong.roots, wrong.nonce, wrong.exporter, wrong.now); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
	}
}

func TestRecoverWithAnECDSAKey(t *testing.T) {
	a, key := authority(t), ecdsaKey(t, elliptic.P256())
	chain, err := a.Issue(node("n1"), key.Public(), time.Now(), DefaultLifetime)
	must(t, chain, err)
	c, err := NewCredentials(tls.Certificate{Certificate: chain, PrivateKey: key}, trustIn(a))
	must(t, c, err)
	nonce, exporter := NewNonce(), NewNonce()
	request, err := c.Recover(newKey(t).Public(), nonce, exporter)
	must(t, request, err)
	if _, err := request.Verify(cluster, trustIn(a).Roots, nonce, exporter, time.Now()); err != nil {
		t.Error(err)
	}
	if m := meet(t, c.Server("p/1"), c.Client(nil, "p/1")); m.err() != nil {
		t.Error(m.err())
	}
}
