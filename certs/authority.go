package certs

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net/url"
	"time"
)

const (
	// Skew is the tolerated difference between two clocks. A certificate is valid from
	// this long before it was issued until this long after the end of its life.
	Skew = time.Hour
	// DefaultLifetime is how long a certificate is meant to be used. A Renewer replaces it
	// earlier.
	DefaultLifetime = 24 * time.Hour
	// MaxLifetime bounds the lifetime of a certificate.
	MaxLifetime = 7 * 24 * time.Hour
	// rootLife is the life of a root.
	rootLife = 10 * 365 * 24 * time.Hour
)

var (
	// ErrBadLifetime: a lifetime is not positive, or over MaxLifetime.
	ErrBadLifetime = errors.New("certs: not a valid lifetime for a certificate")
	// ErrNotRoot: a certificate is not a root of this mesh.
	ErrNotRoot = errors.New("certs: not a root of this mesh")
)

// Authority holds the private key of a root. It is immutable and safe for concurrent use.
type Authority struct {
	cluster string
	key     ed25519.PrivateKey
	root    *x509.Certificate
	// cross is this root's cross-certificate, signed by the previous root, in DER; or nil.
	cross []byte
}

// NewAuthority makes a new root for a cluster, valid for ten years. It fails with
// ErrBadIdentity if the cluster's name is invalid.
func NewAuthority(cluster string, now time.Time) (*Authority, error) {
	if !isName(cluster, "-") {
		return nil, fmt.Errorf("%w: cluster %.100q", ErrBadIdentity, cluster)
	}
	key, err := NewKey()
	if err != nil {
		return nil, err
	}
	spki, err := SPKI(key.Public())
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		// Roots of one cluster have different names, so that x509 finds paths by name.
		Subject:               pkix.Name{Organization: []string{cluster}, CommonName: "locus root " + KeyHash(spki)[:12]},
		NotBefore:             now.Add(-Skew),
		NotAfter:              now.Add(rootLife),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLen:            1, // the next root, cross-signed, and nothing deeper
		URIs:                  []*url.URL{{Scheme: "locus", Host: cluster}},
	}
	root, err := sign(template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return newAuthority(key, root, nil)
}

func newAuthority(key ed25519.PrivateKey, root *x509.Certificate, cross []byte) (*Authority, error) {
	cluster, err := checkRoot(root)
	if err != nil {
		return nil, err
	}
	if !key.Public().(ed25519.PublicKey).Equal(root.PublicKey) {
		return nil, fmt.Errorf("%w: its key does not match", ErrNotRoot)
	}
	a := &Authority{cluster: cluster, key: key, root: root}
	if cross == nil {
		return a, nil
	}
	return a.WithCross(cross)
}

// Cluster returns the id of the authority's cluster.
func (a *Authority) Cluster() string { return a.cluster }

// Root returns the root certificate, which must not be changed.
func (a *Authority) Root() *x509.Certificate { return a.root }

// Issue issues a certificate for a key and an identity. It is valid for life from now, which
// is at most MaxLifetime, but not longer than the root. The result is a chain in DER, leaf first,
// followed by the cross-certificate, if any (WithCross), and never by the root itself.
//
// Nodes may act as server and client, all others as client only. Nothing in the certificate
// but the key comes from the requester.
func (a *Authority) Issue(id Identity, key crypto.PublicKey, now time.Time, life time.Duration) ([][]byte, error) {
	if err := id.Validate(); err != nil {
		return nil, err
	}
	if id.Cluster != a.cluster {
		return nil, fmt.Errorf("%w: %s is not of %s", ErrWrongCluster, id, a.cluster)
	}
	if _, err := SPKI(key); err != nil {
		return nil, err
	}
	if life <= 0 || life > MaxLifetime {
		return nil, fmt.Errorf("%w: %v", ErrBadLifetime, life)
	}
	if !now.Before(a.root.NotAfter) {
		return nil, fmt.Errorf("%w: the root ended on %s", ErrExpired, a.root.NotAfter.Format(time.DateOnly))
	}
	use := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if id.Role == RoleNode {
		use = append(use, x509.ExtKeyUsageServerAuth)
	}
	leaf, err := sign(&x509.Certificate{
		NotBefore:             latest(now.Add(-Skew), a.root.NotBefore),
		NotAfter:              earliest(now.Add(life+Skew), a.root.NotAfter),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           use,
		BasicConstraintsValid: true,
		DNSNames:              []string{ServerName},
		URIs:                  []*url.URL{{Scheme: "locus", Host: id.Cluster, Path: "/" + string(id.Role) + "/" + id.ID}},
	}, a.root, key, a.key)
	if err != nil {
		return nil, err
	}
	if got, err := IdentityOf(leaf); err != nil || got != id {
		return nil, fmt.Errorf("certs: %s became %s: %w", id, got, errors.Join(err, ErrBadIdentity))
	}
	chain := [][]byte{leaf.Raw}
	if a.cross != nil {
		chain = append(chain, a.cross)
	}
	return chain, nil
}

// CrossSign signs the next root of the same cluster with this one, so that members that trust
// only this root accept certificates of the next. The result, in DER, is for WithCross of the
// next authority.
func (a *Authority) CrossSign(next *x509.Certificate, now time.Time) ([]byte, error) {
	cluster, err := checkRoot(next)
	if err != nil {
		return nil, err
	}
	if cluster != a.cluster {
		return nil, fmt.Errorf("%w: the next root is that of %s", ErrWrongCluster, cluster)
	}
	if PinOf(next) == PinOf(a.root) {
		return nil, fmt.Errorf("%w: the next root is this one", ErrNotRoot)
	}
	cross, err := sign(&x509.Certificate{
		Subject:               next.Subject,
		SubjectKeyId:          next.SubjectKeyId,
		NotBefore:             latest(now.Add(-Skew), a.root.NotBefore),
		NotAfter:              earliest(a.root.NotAfter, next.NotAfter),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
		URIs:                  next.URIs,
	}, a.root, next.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	return cross.Raw, nil
}

// WithCross returns the same authority with a cross-certificate, which its chains then
// include. It fails with ErrNotRoot if the cross-certificate is not for this root.
func (a *Authority) WithCross(cross []byte) (*Authority, error) {
	cert, err := x509.ParseCertificate(cross)
	if err != nil {
		return nil, fmt.Errorf("%w: the cross-certificate cannot be read: %w", ErrNotRoot, err)
	}
	if !cert.IsCA || PinOf(cert) != PinOf(a.root) || !bytes.Equal(cert.RawSubject, a.root.RawSubject) {
		return nil, fmt.Errorf("%w: the cross-certificate is for another root", ErrNotRoot)
	}
	with := *a
	with.cross = cert.Raw
	return &with, nil
}

// checkRoot returns the cluster of a self-signed root, or ErrNotRoot.
func checkRoot(root *x509.Certificate) (cluster string, err error) {
	if root == nil {
		return "", fmt.Errorf("%w: no certificate", ErrNotRoot)
	}
	if !root.IsCA || root.KeyUsage&x509.KeyUsageCertSign == 0 {
		return "", fmt.Errorf("%w: it may not sign", ErrNotRoot)
	}
	if err := root.CheckSignatureFrom(root); err != nil {
		return "", fmt.Errorf("%w: %w", ErrNotRoot, err)
	}
	cluster, err = clusterOf(root)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNotRoot, err)
	}
	return cluster, nil
}

// sign creates a certificate with a random serial number.
func sign(template, parent *x509.Certificate, key crypto.PublicKey, signer crypto.Signer) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key, signer)
	if err != nil {
		return nil, fmt.Errorf("certs: sign: %w", err)
	}
	return x509.ParseCertificate(der)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
