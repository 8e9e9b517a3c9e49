package certs

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Why a peer's certificate is refused, for errors.Is. A certificate without a valid identity
// is ErrBadIdentity.
var (
	// ErrUntrusted: the chain leads to no trusted root.
	ErrUntrusted = errors.New("certs: no trusted root stands behind the certificate")
	// ErrExpired: a certificate of the chain has expired by the local clock.
	ErrExpired = errors.New("certs: the certificate has expired")
	// ErrNotYetValid: the certificate is not valid yet by the local clock.
	ErrNotYetValid = errors.New("certs: the certificate is not valid yet; is a clock wrong?")
	// ErrWrongCluster: the peer is a member of another mesh.
	ErrWrongCluster = errors.New("certs: of another cluster")
	// ErrWrongRole: the role of the peer may not do this.
	ErrWrongRole = errors.New("certs: the role may not do this")
	// ErrWrongUse: the certificate is for another use, such as a client's on a server.
	ErrWrongUse = errors.New("certs: the certificate is not for this use")
	// ErrRevoked: the mesh has revoked the identity.
	ErrRevoked = errors.New("certs: the identity is revoked")
	// ErrNoProtocol: the peer offers none of the protocols.
	ErrNoProtocol = errors.New("certs: no common protocol")
)

// maxChain bounds the certificates that a peer may send: a leaf, a cross-certificate and, at
// a Door, the roots.
const maxChain = 2 + maxRoots

// verify verifies a chain, leaf first, for a use at a time.
func verify(chain []*x509.Certificate, roots *x509.CertPool, use x509.ExtKeyUsage, now time.Time) (Identity, error) {
	if len(chain) == 0 || len(chain) > maxChain {
		return Identity{}, fmt.Errorf("%w: %d certificates", ErrUntrusted, len(chain))
	}
	leaf, between := chain[0], x509.NewCertPool()
	for _, cert := range chain[1:] {
		between.AddCert(cert)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{
		Roots:         roots,
		Intermediates: between,
		CurrentTime:   now,
		KeyUsages:     []x509.ExtKeyUsage{use},
	}); err != nil {
		return Identity{}, refusal(leaf, now, err)
	}
	id, err := IdentityOf(leaf)
	if err != nil {
		return Identity{}, err
	}
	// crypto/x509 accepts a certificate without extended key usage for every use.
	if leaf.IsCA || !slices.Contains(leaf.ExtKeyUsage, use) {
		return id, fmt.Errorf("%w: %s", ErrWrongUse, id)
	}
	if use == x509.ExtKeyUsageServerAuth && id.Role != RoleNode {
		return id, fmt.Errorf("%w: %s is no server", ErrWrongRole, id)
	}
	return id, nil
}

func refusal(leaf *x509.Certificate, now time.Time, err error) error {
	var invalid x509.CertificateInvalidError
	if !errors.As(err, &invalid) {
		return fmt.Errorf("%w: %w", ErrUntrusted, err)
	}
	switch {
	case invalid.Reason == x509.IncompatibleUsage:
		return fmt.Errorf("%w: %w", ErrWrongUse, err)
	case invalid.Reason != x509.Expired:
		return fmt.Errorf("%w: %w", ErrUntrusted, err)
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("%w: %w", ErrNotYetValid, err)
	}
	return fmt.Errorf("%w: %w", ErrExpired, err)
}
