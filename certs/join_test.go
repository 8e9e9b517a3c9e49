package certs

import (
	"bytes"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/json"
	"errors"
	"testing"
	"time"
)

// A joiner that knows a token only: it learns the mesh, proves itself, is issued
// a certificate and is a member.
func TestJoin(t *testing.T) {
	a := authority(t)
	gate := member(t, a, node("n1"))
	token, err := ParseToken(NewToken(RoleLink, PinOf(a.Root())).String())
	must(t, token, err)
	m := meet(t, gate.JoinServer(JoinProtocol), PinnedClient(token.Pin, JoinProtocol))
	if m.err() != nil {
		t.Fatal(m.err())
	}
	if len(m.atServer.PeerCertificates) != 0 {
		t.Error("the joiner showed a certificate")
	}
	learned, err := token.Pin.Verify(m.atClient, time.Now())
	must(t, learned, err)
	if learned.Cluster != cluster || learned.Server != gate.Identity() || !learned.Root.Equal(a.Root()) {
		t.Errorf("learned %+v", learned)
	}

	key, nonce := newKey(t), NewNonce()
	request, err := token.Request(learned.Cluster, key.Public(), nonce, m.clientAsk)
	must(t, request, err)
	if err := request.Verify(cluster, RoleLink, token.Public(), nonce, m.serverAsk); err != nil {
		t.Fatal(err)
	}
	asked, err := request.Key()
	must(t, asked, err)
	chain, err := a.Issue(Identity{cluster, RoleLink, "laptop"}, asked, time.Now(), DefaultLifetime)
	must(t, chain, err)
	c, err := NewCredentials(tls.Certificate{Certificate: chain, PrivateKey: key}, trustIn(a))
	must(t, c, err)
	if m := meet(t, gate.Server("p/1"), c.Client(nil, "p/1")); m.err() != nil {
		t.Error(m.err())
	}
}

func TestBadProofs(t *testing.T) {
	token := NewToken(RoleNode, Pin(KeyHash(nil)))
	key, nonce, exporter := newKey(t), NewNonce(), NewNonce()
	good, err := token.Request(cluster, key.Public(), nonce, exporter)
	must(t, good, err)
	otherKey, err := SPKI(newKey(t).Public())
	must(t, otherKey, err)
	type claim struct {
		request         JoinRequest
		cluster         string
		role            Role
		key             ed25519.PublicKey
		nonce, exporter []byte
	}
	right := claim{good, cluster, RoleNode, token.Public(), nonce, exporter}
	verify := func(c claim) error { return c.request.Verify(c.cluster, c.role, c.key, c.nonce, c.exporter) }
	if err := verify(right); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		change func(*claim)
		want   error
	}{
		"another cluster":         {func(c *claim) { c.cluster = "other" }, ErrBadProof},
		"another role":            {func(c *claim) { c.role = RoleVM }, ErrBadProof},
		"another token's key":     {func(c *claim) { c.key = NewToken(RoleNode, token.Pin).Public() }, ErrBadProof},
		"no token's key":          {func(c *claim) { c.key = nil }, ErrBadProof},
		"another token id":        {func(c *claim) { c.request.TokenID = "other" }, ErrBadProof},
		"another connection":      {func(c *claim) { c.exporter = NewNonce() }, ErrBadProof},
		"no connection":           {func(c *claim) { c.exporter = nil }, ErrBadProof},
		"another nonce sent":      {func(c *claim) { c.nonce = NewNonce() }, ErrBadProof},
		"another nonce at both":   {func(c *claim) { c.nonce = NewNonce(); c.request.Nonce = c.nonce }, ErrBadProof},
		"no nonce":                {func(c *claim) { c.nonce, c.request.Nonce = nil, nil }, ErrBadProof},
		"the key swapped":         {func(c *claim) { c.request.SPKI = otherKey }, ErrBadProof},
		"no key":                  {func(c *claim) { c.request.SPKI = nil }, ErrBadKey},
		"rubbish as key":          {func(c *claim) { c.request.SPKI = []byte("?") }, ErrBadKey},
		"no signature":            {func(c *claim) { c.request.Signature = nil }, ErrBadProof},
		"a signature cut":         {func(c *claim) { c.request.Signature = c.request.Signature[:63] }, ErrBadProof},
		"a signature with a flip": {func(c *claim) { c.request.Signature = flipped(c.request.Signature) }, ErrBadProof},
	} {
		wrong := right
		c.change(&wrong)
		if err := verify(wrong); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := token.Request(cluster, key.Public(), []byte("short"), exporter); !errors.Is(err, ErrBadProof) {
		t.Errorf("a short nonce: %v", err)
	}
	if _, err := token.Request(cluster, nil, nonce, exporter); !errors.Is(err, ErrBadKey) {
		t.Errorf("no key: %v", err)
	}
}

func flipped(b []byte) []byte {
	b = bytes.Clone(b)
	b[len(b)/2] ^= 1
	return b
}

func FuzzJoinRequest(f *testing.F) {
	token := Token{Role: RoleNode, Pin: Pin(KeyHash(nil)), ID: "id", Seed: [32]byte{1}}
	nonce, exporter := bytes.Repeat([]byte{2}, NonceSize), bytes.Repeat([]byte{3}, ExporterSize)
	good, err := token.Request(cluster, ed25519.NewKeyFromSeed(make([]byte, 32)).Public(), nonce, exporter)
	must(f, good, err)
	text, err := json.Marshal(good)
	f.Add(must(f, text, err))
	f.Add([]byte(`{"spki":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var r JoinRequest
		if json.Unmarshal(text, &r) != nil {
			return
		}
		err := r.Verify(cluster, RoleNode, token.Public(), nonce, exporter)
		if err == nil && (r.TokenID != good.TokenID || !bytes.Equal(r.SPKI, good.SPKI) || !bytes.Equal(r.Nonce, nonce)) {
			t.Fatalf("%s holds", text)
		}
		if err != nil && !errors.Is(err, ErrBadProof) && !errors.Is(err, ErrBadKey) {
			t.Fatal(err)
		}
	})
}
