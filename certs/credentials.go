package certs

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// ErrBadCredentials: a certificate, key and trust do not match each other, or belong to
// another identity than before.
var ErrBadCredentials = errors.New("certs: credentials that do not fit")

// Credentials are this process's certificate and key, and the roots that it trusts. They can
// be replaced while connections are made; the identity stays. They are safe for concurrent
// use.
type Credentials struct {
	identity Identity
	now      func() time.Time
	revoked  atomic.Pointer[func(Identity) bool]

	changing sync.Mutex // orders changes
	present  atomic.Pointer[credentials]
}

// credentials is one immutable state.
type credentials struct {
	cert  tls.Certificate // Leaf is set
	trust Trust
	pool  *x509.CertPool
	// issuer is the trusted root that signed the leaf itself; "" if none did.
	issuer Pin
	// changed is closed when this state is replaced.
	changed chan struct{}
}

// Option changes how Credentials are made.
type Option func(*Credentials)

// WithClock replaces time.Now for checking certificates.
func WithClock(now func() time.Time) Option { return func(c *Credentials) { c.now = now } }

// NewCredentials combines a certificate with its key and the trusted roots. It fails with
// ErrBadCredentials unless the key matches and the chain leads to one of the roots, and with
// ErrBadTrust or ErrBadIdentity. An expired certificate is accepted, because it may be
// renewed, but peers will refuse it.
func NewCredentials(cert tls.Certificate, trust Trust, options ...Option) (*Credentials, error) {
	c := &Credentials{now: time.Now}
	for _, option := range options {
		option(c)
	}
	id, err := identityIn(cert)
	if err != nil {
		return nil, err
	}
	c.identity = id
	next, err := c.check(cert, trust)
	if err != nil {
		return nil, err
	}
	c.present.Store(next)
	return c, nil
}

func identityIn(cert tls.Certificate) (Identity, error) {
	if len(cert.Certificate) == 0 {
		return Identity{}, fmt.Errorf("%w: no certificate", ErrBadCredentials)
	}
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	if err != nil {
		return Identity{}, fmt.Errorf("%w: %w", ErrBadCredentials, err)
	}
	return IdentityOf(leaf)
}

// check checks a certificate and a trust, and makes a state of them.
func (c *Credentials) check(cert tls.Certificate, trust Trust) (*credentials, error) {
	cluster, err := trust.Cluster()
	if err != nil {
		return nil, err
	}
	if cluster != c.identity.Cluster {
		return nil, fmt.Errorf("%w: %w: the roots are of %s", ErrBadCredentials, ErrWrongCluster, cluster)
	}
	var chain []*x509.Certificate
	for _, der := range cert.Certificate {
		parsed, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrBadCredentials, err)
		}
		chain = append(chain, parsed)
	}
	if len(chain) == 0 {
		return nil, fmt.Errorf("%w: no certificate", ErrBadCredentials)
	}
	leaf := chain[0]
	signer, ok := cert.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%w: no private key", ErrBadCredentials)
	}
	if public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool }); !ok || !public.Equal(leaf.PublicKey) {
		return nil, fmt.Errorf("%w: the key is another's", ErrBadCredentials)
	}
	next := &credentials{cert: cert, trust: trust, pool: trust.pool(), changed: make(chan struct{})}
	next.cert.Leaf = leaf
	// Peers check whether it is valid now.
	when := earliest(latest(c.now(), leaf.NotBefore), leaf.NotAfter)
	id, err := verify(chain, next.pool, x509.ExtKeyUsageClientAuth, when)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadCredentials, err)
	}
	if id != c.identity {
		return nil, fmt.Errorf("%w: %s is not %s", ErrBadCredentials, id, c.identity)
	}
	for _, root := range trust.Roots {
		if leaf.CheckSignatureFrom(root) == nil {
			next.issuer = PinOf(root)
		}
	}
	return next, nil
}

// Identity returns the identity of this process, which never changes.
func (c *Credentials) Identity() Identity { return c.identity }

// Certificate returns the current chain and key, with Leaf set. It must not be changed.
func (c *Credentials) Certificate() *tls.Certificate { return &c.present.Load().cert }

// Leaf returns the current certificate, which must not be changed.
func (c *Credentials) Leaf() *x509.Certificate { return c.present.Load().cert.Leaf }

// Trust returns the current roots, which must not be changed.
func (c *Credentials) Trust() Trust { return c.present.Load().trust }

// Stale reports whether the certificate was not issued by the root that issues new ones. It
// should then be renewed at once.
func (c *Credentials) Stale() bool { return c.present.Load().stale() }

func (s *credentials) stale() bool { return s.issuer != PinOf(s.trust.Issuer()) }

// Changed returns a channel that is closed at the next change. Call it before reading the
// values, so that no change is missed.
func (c *Credentials) Changed() <-chan struct{} { return c.present.Load().changed }

// Replace replaces the certificate. It fails with ErrBadCredentials unless the new one is for
// the same identity and leads to one of the current roots.
func (c *Credentials) Replace(cert tls.Certificate) error { return c.swap(&cert, nil) }

// SetTrust replaces the trusted roots. It fails with ErrBadCredentials if the current
// certificate leads to none of them, and with ErrBadTrust if they are invalid.
func (c *Credentials) SetTrust(trust Trust) error { return c.swap(nil, &trust) }

// Renew does Replace and SetTrust in one step, for a new certificate from a root that was not
// trusted before.
func (c *Credentials) Renew(cert tls.Certificate, trust Trust) error { return c.swap(&cert, &trust) }

func (c *Credentials) swap(cert *tls.Certificate, trust *Trust) error {
	c.changing.Lock()
	defer c.changing.Unlock()
	old := c.present.Load()
	if cert == nil {
		cert = &old.cert
	}
	if trust == nil {
		trust = &old.trust
	}
	next, err := c.check(*cert, *trust)
	if err != nil {
		return err
	}
	c.present.Store(next)
	close(old.changed)
	return nil
}

// SetRevoked sets the function that is asked about every peer at every handshake; true refuses
// the peer. It must be fast and safe for concurrent use. Nil, the default, refuses none.
func (c *Credentials) SetRevoked(revoked func(Identity) bool) {
	if revoked == nil {
		c.revoked.Store(nil)
		return
	}
	c.revoked.Store(&revoked)
}

// VerifyClient verifies the chain, leaf first, of a peer that dialled this process, by the
// current roots, clock and revocations. It may be repeated after the handshake.
func (c *Credentials) VerifyClient(chain []*x509.Certificate) (Identity, error) {
	return c.verify(chain, x509.ExtKeyUsageClientAuth)
}

// VerifyServer is VerifyClient for a peer that this process dialled.
func (c *Credentials) VerifyServer(chain []*x509.Certificate) (Identity, error) {
	return c.verify(chain, x509.ExtKeyUsageServerAuth)
}

func (c *Credentials) verify(chain []*x509.Certificate, use x509.ExtKeyUsage) (Identity, error) {
	id, err := verify(chain, c.present.Load().pool, use, c.now())
	if err != nil {
		return id, err
	}
	if id.Cluster != c.identity.Cluster {
		return id, fmt.Errorf("%w: %s", ErrWrongCluster, id)
	}
	if revoked := c.revoked.Load(); revoked != nil && (*revoked)(id) {
		return id, fmt.Errorf("%w: %s", ErrRevoked, id)
	}
	return id, nil
}
