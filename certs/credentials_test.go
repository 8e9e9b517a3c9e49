package certs

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"testing"
	"time"
)

func TestMismatchedCredentialsAreRefused(t *testing.T) {
	a, stranger := authority(t), authority(t)
	other, err := NewAuthority("other", time.Now())
	must(t, other, err)
	good := issue(t, a, node("n1"))
	with := func(change func(*tls.Certificate)) tls.Certificate {
		cert := good
		change(&cert)
		return cert
	}
	for what, c := range map[string]struct {
		cert  tls.Certificate
		trust Trust
		want  error
	}{
		"nothing":              {tls.Certificate{}, trustIn(a), ErrBadCredentials},
		"rubbish":              {with(func(c *tls.Certificate) { c.Certificate = [][]byte{{1}} }), trustIn(a), ErrBadCredentials},
		"no key":               {with(func(c *tls.Certificate) { c.PrivateKey = nil }), trustIn(a), ErrBadCredentials},
		"another's key":        {with(func(c *tls.Certificate) { c.PrivateKey = newKey(t) }), trustIn(a), ErrBadCredentials},
		"a root":               {tls.Certificate{Certificate: [][]byte{a.root.Raw}, PrivateKey: a.key}, trustIn(a), ErrBadIdentity},
		"no roots":             {good, Trust{}, ErrBadTrust},
		"a strange root":       {good, trustIn(stranger), ErrBadCredentials},
		"a foreign root":       {good, trustIn(other), ErrWrongCluster},
		"roots of two meshes":  {good, trustIn(a, other), ErrBadTrust},
		"a root twice":         {good, trustIn(a, a), ErrBadTrust},
		"too many roots":       {good, trustIn(a, authority(t), authority(t), authority(t), authority(t)), ErrBadTrust},
		"a leaf among roots":   {good, Trust{append(trustIn(a).Roots, member(t, a, node("n2")).Leaf())}, ErrBadTrust},
		"a server's cert only": {forge(t, a, forged{names: []string{node("n1").String()}, use: extUse{1}}), trustIn(a), ErrWrongUse},
	} {
		if _, err := NewCredentials(c.cert, c.trust); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
	}
}

// A change that is refused changes nothing.
func TestRefusedChanges(t *testing.T) {
	a, next := authority(t), authority(t)
	c := member(t, a, node("n1"))
	leaf, changed := c.Leaf(), c.Changed()
	for what, err := range map[string]error{
		"another identity":         c.Replace(issue(t, a, node("n2"))),
		"an unknown root":          c.Replace(issue(t, next, node("n1"))),
		"no certificate":           c.Replace(tls.Certificate{}),
		"a trust that excludes it": c.SetTrust(trustIn(next)),
		"both, not fitting":        c.Renew(issue(t, a, node("n1")), trustIn(next)),
	} {
		if !errors.Is(err, ErrBadCredentials) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := c.SetTrust(Trust{}); !errors.Is(err, ErrBadTrust) {
		t.Errorf("no trust: %v", err)
	}
	select {
	case <-changed:
		t.Error("a change was told")
	default:
	}
	if c.Leaf() != leaf || !c.Trust().Issuer().Equal(a.Root()) {
		t.Error("something changed")
	}
	must(t, 0, c.Renew(issue(t, next, node("n1")), trustIn(next)))
	select {
	case <-changed:
	default:
		t.Error("the change was not told")
	}
	if c.Leaf().Equal(leaf) || c.Certificate().Leaf != c.Leaf() || !c.Trust().Issuer().Equal(next.Root()) {
		t.Error("nothing changed")
	}
}

// One who wakes after its certificate's end can still load it, to recover.
func TestExpiredCredentialsCanBeMade(t *testing.T) {
	a := authority(t)
	for _, began := range []time.Duration{-100 * time.Hour, 100 * time.Hour} {
		c, err := NewCredentials(issueAt(t, a, node("n1"), time.Now().Add(began), DefaultLifetime), trustIn(a))
		must(t, c, err)
		if err := c.SetTrust(trustIn(a, authority(t))); err != nil {
			t.Error(err)
		}
	}
}

func TestStaleCredentials(t *testing.T) {
	old, next := rotated(t)
	c := member(t, old, node("n1"))
	stale := func(want bool) {
		t.Helper()
		if c.Stale() != want {
			t.Errorf("stale: %t", !want)
		}
	}
	stale(false)
	must(t, 0, c.SetTrust(trustIn(old, next)))
	stale(false)
	must(t, 0, c.SetTrust(trustIn(next, old)))
	stale(true)
	must(t, 0, c.Replace(issue(t, next, node("n1"))))
	stale(false)
	// Only through the cross-signed root: not what the issuer gives out.
	must(t, 0, c.SetTrust(trustIn(old)))
	stale(true)
}

func TestTrustAsText(t *testing.T) {
	type answer struct {
		Trust Trust `json:"trust"`
	}
	a, b := authority(t), authority(t)
	text, err := json.Marshal(answer{trustIn(a, b)})
	must(t, text, err)
	var got answer
	must(t, 0, json.Unmarshal(text, &got))
	if len(got.Trust.Roots) != 2 || !got.Trust.Issuer().Equal(a.Root()) || !got.Trust.Roots[1].Equal(b.Root()) {
		t.Errorf("%d roots, issuer %v", len(got.Trust.Roots), got.Trust.Issuer().Subject)
	}
	plain, err := trustIn(a).MarshalText()
	must(t, plain, err)
	for what, text := range map[string]string{
		"nothing":       "",
		"rubbish":       "?",
		"rubbish after": string(plain) + "x",
		"before":        "x" + string(plain),
		"twice":         string(plain) + string(plain),
		"cut":           string(plain[:len(plain)/2]),
		"too long":      string(plain) + string(make([]byte, maxPEM)),
		"another block": "-----BEGIN X-----\n-----END X-----\n",
	} {
		kept := trustIn(b)
		if err := kept.UnmarshalText([]byte(text)); !errors.Is(err, ErrBadTrust) || !kept.Issuer().Equal(b.Root()) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := (Trust{}).MarshalText(); !errors.Is(err, ErrBadTrust) {
		t.Errorf("nothing: %v", err)
	}
}

func FuzzTrust(f *testing.F) {
	text, err := trustIn(authority(f), authority(f)).MarshalText()
	f.Add(must(f, text, err))
	f.Fuzz(func(t *testing.T, text []byte) {
		var trust Trust
		if err := trust.UnmarshalText(text); err != nil {
			if !errors.Is(err, ErrBadTrust) {
				t.Fatal(err)
			}
			return
		}
		if _, err := trust.Cluster(); err != nil {
			t.Fatal(err)
		}
	})
}
