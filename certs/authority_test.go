package certs

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

var authorityTime = time.Now()

func TestIssued(t *testing.T) {
	a := authority(t)
	now := time.Now().Truncate(time.Second)
	for _, role := range []Role{RoleNode, RoleVM, RoleLink} {
		key := newKey(t)
		chain, err := a.Issue(Identity{cluster, role, "m"}, key.Public(), now, DefaultLifetime)
		must(t, chain, err)
		if len(chain) != 1 {
			t.Fatalf("%d certificates", len(chain))
		}
		leaf, err := x509.ParseCertificate(chain[0])
		must(t, leaf, err)
		if !leaf.NotBefore.Equal(now.Add(-Skew)) || !leaf.NotAfter.Equal(now.Add(DefaultLifetime+Skew)) {
			t.Errorf("valid from %v to %v, issued %v", leaf.NotBefore, leaf.NotAfter, now)
		}
		if leaf.IsCA || leaf.KeyUsage != x509.KeyUsageDigitalSignature || !key.Public().(ed25519.PublicKey).Equal(leaf.PublicKey) {
			t.Errorf("CA %t, use %b", leaf.IsCA, leaf.KeyUsage)
		}
		if serves := slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageServerAuth); serves != (role == RoleNode) {
			t.Errorf("%s may serve: %t", role, serves)
		}
		if leaf.SerialNumber.BitLen() < 64 {
			t.Errorf("serial %v", leaf.SerialNumber)
		}
		if err := leaf.VerifyHostname(ServerName); err != nil {
			t.Error(err)
		}
	}
}

func TestIssueRefuses(t *testing.T) {
	a, key, now := authority(t), newKey(t).Public(), time.Now()
	for what, c := range map[string]struct {
		id   Identity
		now  time.Time
		life time.Duration
		want error
	}{
		"another cluster": {Identity{"other", RoleNode, "n"}, now, time.Hour, ErrWrongCluster},
		"no name":         {Identity{cluster, RoleNode, ""}, now, time.Hour, ErrBadIdentity},
		"a bad name":      {Identity{cluster, RoleNode, "a/b"}, now, time.Hour, ErrBadIdentity},
		"no role":         {Identity{cluster, "", "n"}, now, time.Hour, ErrBadIdentity},
		"no life":         {node("n"), now, 0, ErrBadLifetime},
		"too long a life": {node("n"), now, MaxLifetime + 1, ErrBadLifetime},
		"a root at end":   {node("n"), now.Add(11 * 365 * 24 * time.Hour), time.Hour, ErrExpired},
	} {
		if _, err := a.Issue(c.id, key, c.now, c.life); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	// Close to its end a root gives what is left of it.
	last := a.Root().NotAfter.Add(-time.Minute)
	if cert := issueAt(t, a, node("n"), last, time.Hour); cert.Leaf != nil {
		t.Error("a leaf was set")
	} else if leaf, err := x509.ParseCertificate(cert.Certificate[0]); err != nil || !leaf.NotAfter.Equal(a.Root().NotAfter) {
		t.Errorf("outlives its root: %v, %v", leaf.NotAfter, err)
	}
	for _, name := range []string{"", "A", "a.b", "a/b", "-a", strings.Repeat("a", 64)} {
		if _, err := NewAuthority(name, now); !errors.Is(err, ErrBadIdentity) {
			t.Errorf("cluster %q: %v", name, err)
		}
	}
}

// rotated gives an old authority and the next one, whose chains lead to both.
func rotated(t testing.TB) (old, next *Authority) {
	t.Helper()
	old, fresh := authority(t), authority(t)
	cross, err := old.CrossSign(fresh.Root(), time.Now())
	must(t, cross, err)
	next, err = fresh.WithCross(cross)
	return old, must(t, next, err)
}

func TestCrossSigned(t *testing.T) {
	old, next := rotated(t)
	cert := issue(t, next, node("n"))
	for name, a := range map[string]*Authority{"old": old, "next": next} {
		if _, err := NewCredentials(cert, trustIn(a)); err != nil {
			t.Errorf("%s root: %v", name, err)
		}
	}
	if _, err := NewCredentials(cert, trustIn(authority(t))); !errors.Is(err, ErrBadCredentials) || !errors.Is(err, ErrUntrusted) {
		t.Errorf("another root: %v", err)
	}
	if _, err := NewCredentials(issue(t, old, node("n")), trustIn(next)); !errors.Is(err, ErrUntrusted) {
		t.Errorf("the next root stands behind the old one's: %v", err)
	}
}

// Cross-signing goes one step only: a root two changes ago is not believed.
func TestCrossSigningGoesOneStep(t *testing.T) {
	first, second := rotated(t)
	third := authority(t)
	cross, err := second.CrossSign(third.Root(), time.Now())
	third, err = third.WithCross(must(t, cross, err))
	must(t, third, err)
	cert := issue(t, third, node("n"))
	cert.Certificate = append(cert.Certificate, second.cross)
	if _, err := NewCredentials(cert, trustIn(second)); err != nil {
		t.Error(err)
	}
	if _, err := NewCredentials(cert, trustIn(first)); !errors.Is(err, ErrUntrusted) {
		t.Errorf("two steps: %v", err)
	}
}

func TestCrossSignRefuses(t *testing.T) {
	a := authority(t)
	other, err := NewAuthority("other", time.Now())
	must(t, other, err)
	leaf, err := x509.ParseCertificate(issue(t, a, node("n")).Certificate[0])
	must(t, leaf, err)
	for what, c := range map[string]struct {
		next *x509.Certificate
		want error
	}{
		"nothing":         {nil, ErrNotRoot},
		"itself":          {a.Root(), ErrNotRoot},
		"a leaf":          {leaf, ErrNotRoot},
		"another cluster": {other.Root(), ErrWrongCluster},
	} {
		if _, err := a.CrossSign(c.next, time.Now()); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	cross, err := a.CrossSign(authority(t).Root(), time.Now())
	must(t, cross, err)
	for what, der := range map[string][]byte{"another's": cross, "a leaf": leaf.Raw, "rubbish": []byte("?"), "nothing": nil} {
		if _, err := a.WithCross(der); !errors.Is(err, ErrNotRoot) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if bytes.Equal(a.Root().RawSubject, authority(t).Root().RawSubject) {
		t.Error("two roots share a name")
	}
}
