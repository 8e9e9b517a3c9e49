package certs

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
)

// ErrBadTrust: not a set of roots of one mesh.
var ErrBadTrust = errors.New("certs: not a set of roots of one mesh")

const (
	// maxRoots bounds a Trust. A rotation needs two.
	maxRoots = 4
	// maxPEM bounds a Trust or a file of credentials as text, in bytes.
	maxPEM = 64 << 10

	pemCertificate = "CERTIFICATE"
)

// Trust is the set of roots that a process trusts. Roots[0] is the one that issues new
// certificates. The roots must not be changed.
//
// As text, and so in JSON, it is a list of PEM certificates in the same order.
type Trust struct {
	Roots []*x509.Certificate
}

// Issuer returns the root that issues new certificates.
func (t Trust) Issuer() *x509.Certificate { return t.Roots[0] }

// Cluster checks that there are one to four different roots of one cluster, and returns its
// id. It fails with ErrBadTrust.
func (t Trust) Cluster() (string, error) {
	if len(t.Roots) == 0 || len(t.Roots) > maxRoots {
		return "", fmt.Errorf("%w: %d roots", ErrBadTrust, len(t.Roots))
	}
	var cluster string
	for i, root := range t.Roots {
		of, err := checkRoot(root)
		switch {
		case err != nil:
			return "", fmt.Errorf("%w: %w", ErrBadTrust, err)
		case i > 0 && of != cluster:
			return "", fmt.Errorf("%w: of %s and %s", ErrBadTrust, cluster, of)
		case slices.ContainsFunc(t.Roots[:i], root.Equal):
			return "", fmt.Errorf("%w: a root is in it twice", ErrBadTrust)
		}
		cluster = of
	}
	return cluster, nil
}

// Pins returns the pins of the roots, in order.
func (t Trust) Pins() []Pin {
	pins := make([]Pin, len(t.Roots))
	for i, root := range t.Roots {
		pins[i] = PinOf(root)
	}
	return pins
}

func (t Trust) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	for _, root := range t.Roots {
		pool.AddCert(root)
	}
	return pool
}

// MarshalText encodes the roots as PEM. Like Cluster it fails with ErrBadTrust.
func (t Trust) MarshalText() ([]byte, error) {
	if _, err := t.Cluster(); err != nil {
		return nil, err
	}
	var text []byte
	for _, root := range t.Roots {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: root.Raw})...)
	}
	return text, nil
}

// UnmarshalText decodes the result of MarshalText. On ErrBadTrust it changes nothing.
func (t *Trust) UnmarshalText(text []byte) error {
	blocks, err := pemBlocks(text)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBadTrust, err)
	}
	var read Trust
	for _, block := range blocks {
		if block.Type != pemCertificate {
			return fmt.Errorf("%w: a block of another kind", ErrBadTrust)
		}
		root, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrBadTrust, err)
		}
		read.Roots = append(read.Roots, root)
	}
	if _, err := read.Cluster(); err != nil {
		return err
	}
	*t = read
	return nil
}

var errNotPEM = errors.New("not PEM, or too long")

// pemBlocks splits text that contains nothing but PEM blocks.
func pemBlocks(text []byte) ([]*pem.Block, error) {
	if len(text) > maxPEM {
		return nil, errNotPEM
	}
	var blocks []*pem.Block
	for text = bytes.TrimSpace(text); len(text) > 0; text = bytes.TrimSpace(text) {
		block, rest := pem.Decode(text)
		if block == nil || !bytes.HasPrefix(text, []byte("-----BEGIN ")) {
			return nil, errNotPEM
		}
		blocks, text = append(blocks, block), rest
	}
	return blocks, nil
}
