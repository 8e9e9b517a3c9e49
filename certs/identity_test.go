package certs

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func identities() *rapid.Generator[Identity] {
	return rapid.Custom(func(t *rapid.T) Identity {
		return Identity{
			Cluster: rapid.StringMatching(`[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?`).Draw(t, "cluster"),
			Role:    rapid.SampledFrom([]Role{RoleNode, RoleVM, RoleLink}).Draw(t, "role"),
			ID:      rapid.StringMatching(`[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?`).Draw(t, "id"),
		}
	})
}

func TestIdentityIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := identities().Draw(t, "id")
		if got, err := ParseIdentity(id.String()); err != nil || got != id {
			t.Fatalf("%v, %v", got, err)
		}
	})
}

// Every name that is allowed can also be certified and read out of what was.
func TestIdentityThroughACertificate(t *testing.T) {
	key := newKey(t)
	rapid.Check(t, func(t *rapid.T) {
		id := identities().Draw(t, "id")
		a, err := NewAuthority(id.Cluster, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		chain, err := a.Issue(id, key.Public(), time.Now(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(chain[0])
		if err != nil {
			t.Fatal(err)
		}
		if got, err := IdentityOf(leaf); err != nil || got != id {
			t.Fatalf("%v, %v", got, err)
		}
	})
}

var oddIdentities = []string{
	"", "locus://", "locus:///node/n1", "locus://c/node", "locus://c/node/", "locus://c//n1", "locus://c/node/n1/",
	"locus://c/node/n1/x", "LOCUS://c/node/n1", "locus://C/node/n1", "locus://c/node/N1", "locus://c/NODE/n1",
	"locus://c/admin/n1", "locus://user@c/node/n1", "locus://user:pass@c/node/n1", "locus://c:1/node/n1",
	"locus://c/node/n1?x=1", "locus://c/node/n1#f", "locus://c/node/..", "locus://c/node/.", "locus://c/node/../n2",
	"locus://c/./node/n1", "locus://c/node/%6e1", "locus://c/node/n%2f1", "locus://c/node/n\x001", "locus://c/node/n 1",
	" locus://c/node/n1", "locus://c/node/n1\n", "locus:c/node/n1", "https://c/node/n1", "locus://-c/node/n1",
	"locus://c-/node/n1", "locus://c.d/node/n1", "locus://c/node/-n", "locus://c/node/n.", "locus://c/node/ñ",
	"locus://c/node/" + strings.Repeat("n", 64), "locus://" + strings.Repeat("c", 64) + "/node/n",
}

func TestOddIdentitiesAreRefused(t *testing.T) {
	for _, s := range oddIdentities {
		if id, err := ParseIdentity(s); !errors.Is(err, ErrBadIdentity) || id != (Identity{}) {
			t.Errorf("%q gave %+v, %v", s, id, err)
		}
		// The same inside a certificate, written byte for byte.
		if id, err := IdentityOf(named(t, dnsName(ServerName), uriName(s))); !errors.Is(err, ErrBadIdentity) || id != (Identity{}) {
			t.Errorf("%q in a certificate gave %+v, %v", s, id, err)
		}
	}
}

func TestOddSetsOfNamesAreRefused(t *testing.T) {
	good := uriName("locus://c/node/n1")
	if id, err := IdentityOf(named(t, dnsName(ServerName), good)); err != nil || id != (Identity{"c", RoleNode, "n1"}) {
		t.Fatalf("%v, %v", id, err)
	}
	for what, cert := range map[string]*x509.Certificate{
		"nothing":          nil,
		"no extension":     {},
		"no names":         named(t),
		"no DNS name":      named(t, good),
		"no URI":           named(t, dnsName(ServerName)),
		"two URIs":         named(t, dnsName(ServerName), good, uriName("locus://c/node/n2")),
		"the URI twice":    named(t, dnsName(ServerName), good, good),
		"another DNS name": named(t, dnsName("locus.example"), good),
		"DNS in capitals":  named(t, dnsName("LOCUS"), good),
		"mail too":         named(t, dnsName(ServerName), good, asn1.RawValue{Class: 2, Tag: 1, Bytes: []byte("a@b")}),
		"an address too":   named(t, dnsName(ServerName), good, asn1.RawValue{Class: 2, Tag: 7, Bytes: []byte{127, 0, 0, 1}}),
		"other order":      named(t, good, dnsName(ServerName)),
		"universal class":  named(t, dnsName(ServerName), asn1.RawValue{Class: 0, Tag: tagURI, Bytes: good.Bytes}),
		"rubbish":          {Extensions: []pkix.Extension{{Id: oidAlternativeNames, Value: []byte("?")}}},
	} {
		if id, err := IdentityOf(cert); !errors.Is(err, ErrBadIdentity) {
			t.Errorf("%s gave %v, %v", what, id, err)
		}
	}
}

func dnsName(s string) asn1.RawValue {
	return asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: tagDNS, Bytes: []byte(s)}
}

func uriName(s string) asn1.RawValue {
	return asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: tagURI, Bytes: []byte(s)}
}

func named(t testing.TB, names ...asn1.RawValue) *x509.Certificate {
	t.Helper()
	if names == nil {
		names = []asn1.RawValue{}
	}
	value, err := asn1.Marshal(names)
	return &x509.Certificate{Extensions: []pkix.Extension{{Id: oidAlternativeNames, Value: must(t, value, err)}}}
}

func FuzzParseIdentity(f *testing.F) {
	f.Add("locus://c/node/n1")
	for _, s := range oddIdentities {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseIdentity(s)
		if err == nil && (id.String() != s || id.Validate() != nil) {
			t.Fatalf("%q became %+v", s, id)
		}
	})
}

func FuzzIdentityOf(f *testing.F) {
	f.Add(named(f, dnsName(ServerName), uriName("locus://c/node/n1")).Extensions[0].Value)
	f.Add(named(f, uriName("locus://c")).Extensions[0].Value)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, value []byte) {
		cert := &x509.Certificate{Extensions: []pkix.Extension{{Id: oidAlternativeNames, Value: value}}}
		if id, err := IdentityOf(cert); err == nil {
			// There is one way only to write an identity.
			again := named(t, dnsName(ServerName), uriName(id.String())).Extensions[0].Value
			if !bytes.Equal(again, value) {
				t.Fatalf("%x is taken for %s", value, id)
			}
		}
		if cluster, err := clusterOf(cert); err == nil && !isName(cluster, "-") {
			t.Fatalf("cluster %q", cluster)
		}
	})
}
