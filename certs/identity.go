package certs

import (
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"strings"
)

// Role is the role of an identity in the mesh.
type Role string

const (
	// RoleNode is a node: it serves and dials.
	RoleNode Role = "node"
	// RoleVM is a managed machine that runs code for the mesh. It only dials.
	RoleVM Role = "vm"
	// RoleLink is a person's linked machine. It only dials.
	RoleLink Role = "link"
)

func (r Role) valid() bool { return r == RoleNode || r == RoleVM || r == RoleLink }

// ErrBadIdentity: not a valid name for a member of a mesh.
var ErrBadIdentity = errors.New("certs: not an identity of a mesh")

const (
	scheme = "locus://"
	// ServerName is the DNS name in every certificate. It is the same for all; members are
	// distinguished by their Identity.
	ServerName = "locus"
	// maxName bounds a cluster's and a member's id, in bytes.
	maxName = 63
)

// Identity names one member of one mesh. It is comparable.
//
// Cluster and ID are 1 to 63 lower-case letters, digits and hyphens, in ID also
// dots and underscores, and begin and end with a letter or digit.
type Identity struct {
	Cluster string `json:"cluster"`
	Role    Role   `json:"role"`
	ID      string `json:"id"`
}

// String returns locus://CLUSTER/ROLE/ID, the form in a certificate.
func (i Identity) String() string {
	return scheme + i.Cluster + "/" + string(i.Role) + "/" + i.ID
}

// Validate returns ErrBadIdentity unless every part is well-formed.
func (i Identity) Validate() error {
	if !isName(i.Cluster, "-") || !i.Role.valid() || !isName(i.ID, "-._") {
		return fmt.Errorf("%w: %q", ErrBadIdentity, i.String())
	}
	return nil
}

// ParseIdentity is the inverse of String. It accepts exactly that form: no upper case, no
// escapes, no port, user, query or fragment.
func ParseIdentity(s string) (Identity, error) {
	rest, ok := strings.CutPrefix(s, scheme)
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != 3 {
		return Identity{}, fmt.Errorf("%w: %.200q", ErrBadIdentity, s)
	}
	id := Identity{Cluster: parts[0], Role: Role(parts[1]), ID: parts[2]}
	if err := id.Validate(); err != nil {
		return Identity{}, err
	}
	return id, nil
}

// IdentityOf returns the identity in a certificate. The alternative names must be exactly
// those that an Authority writes: the DNS name "locus", then one URI. It does not check the
// signature.
func IdentityOf(cert *x509.Certificate) (Identity, error) {
	names, err := namesOf(cert)
	if err != nil {
		return Identity{}, err
	}
	if len(names) != 2 || names[0] != (name{tagDNS, ServerName}) || names[1].tag != tagURI {
		return Identity{}, fmt.Errorf("%w: the certificate has other names", ErrBadIdentity)
	}
	return ParseIdentity(names[1].text)
}

// clusterOf returns the cluster of a root, whose only alternative name is the URI
// locus://CLUSTER.
func clusterOf(root *x509.Certificate) (string, error) {
	names, err := namesOf(root)
	if err != nil {
		return "", err
	}
	if len(names) != 1 || names[0].tag != tagURI {
		return "", fmt.Errorf("%w: the root has other names", ErrBadIdentity)
	}
	cluster, ok := strings.CutPrefix(names[0].text, scheme)
	if !ok || !isName(cluster, "-") {
		return "", fmt.Errorf("%w: the root's cluster is %.100q", ErrBadIdentity, cluster)
	}
	return cluster, nil
}

func isName(s, punctuation string) bool {
	if s == "" || len(s) > maxName {
		return false
	}
	for i, c := range []byte(s) {
		plain := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		inside := i > 0 && i < len(s)-1 && strings.IndexByte(punctuation, c) >= 0
		if !plain && !inside {
			return false
		}
	}
	return true
}

// name is an alternative name as encoded in the certificate. crypto/x509 returns URIs only
// after net/url has normalised them, which would hide an unusual spelling.
type name struct {
	tag  int
	text string
}

// Tags of GeneralName, RFC 5280 section 4.2.1.6.
const (
	tagDNS = 2
	tagURI = 6
)

var oidAlternativeNames = asn1.ObjectIdentifier{2, 5, 29, 17}

func namesOf(cert *x509.Certificate) ([]name, error) {
	if cert == nil {
		return nil, fmt.Errorf("%w: no certificate", ErrBadIdentity)
	}
	for _, extension := range cert.Extensions {
		if !extension.Id.Equal(oidAlternativeNames) {
			continue
		}
		// x509 refuses a certificate that has an extension twice.
		var raw []asn1.RawValue
		rest, err := asn1.Unmarshal(extension.Value, &raw)
		if err != nil || len(rest) > 0 {
			return nil, fmt.Errorf("%w: its names cannot be read", ErrBadIdentity)
		}
		names := make([]name, 0, len(raw))
		for _, v := range raw {
			if v.Class != asn1.ClassContextSpecific {
				return nil, fmt.Errorf("%w: its names cannot be read", ErrBadIdentity)
			}
			names = append(names, name{v.Tag, string(v.Bytes)})
		}
		return names, nil
	}
	return nil, fmt.Errorf("%w: the certificate has no names", ErrBadIdentity)
}
