package certs

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// credentialsFile holds the private key, its chain and the trusted roots, so that they change
// atomically.
const credentialsFile = "credentials.pem"

const (
	pemKey  = "PRIVATE KEY"
	pemRoot = "LOCUS ROOT"
)

// SaveCredentials saves credentials in an existing directory, in a file of mode 0600. The file
// is replaced atomically and synced. It is not safe for concurrent use in one directory.
func SaveCredentials(dir string, c *Credentials) error {
	present := c.present.Load()
	key, err := x509.MarshalPKCS8PrivateKey(present.cert.PrivateKey)
	if err != nil {
		return fmt.Errorf("certs: save: %w", err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: pemKey, Bytes: key})
	for _, der := range present.cert.Certificate {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: der})...)
	}
	for _, root := range present.trust.Roots {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: pemRoot, Bytes: root.Raw})...)
	}
	if err := ReplaceFile(filepath.Join(dir, credentialsFile), text); err != nil {
		return fmt.Errorf("certs: save: %w", err)
	}
	return nil
}

// LoadCredentials reads what SaveCredentials saved. The error is fs.ErrNotExist if there is
// none, ErrBadCredentials or ErrBadTrust if the file is damaged.
func LoadCredentials(dir string, options ...Option) (*Credentials, error) {
	file, err := os.Open(filepath.Join(dir, credentialsFile))
	if err != nil {
		return nil, fmt.Errorf("certs: load: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxPEM+1))
	if err != nil {
		return nil, fmt.Errorf("certs: load: %w", err)
	}
	cert, trust, err := readCredentials(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrBadCredentials, file.Name(), err)
	}
	return NewCredentials(cert, trust, options...)
}

// RemoveCredentials removes what SaveCredentials saved, if anything.
func RemoveCredentials(dir string) error {
	err := os.Remove(filepath.Join(dir, credentialsFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("certs: remove: %w", err)
	}
	return nil
}

func readCredentials(text []byte) (cert tls.Certificate, trust Trust, err error) {
	blocks, err := pemBlocks(text)
	if err != nil {
		return cert, trust, err
	}
	for _, block := range blocks {
		switch block.Type {
		case pemKey:
			cert.PrivateKey, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		case pemCertificate:
			cert.Certificate = append(cert.Certificate, block.Bytes)
		case pemRoot:
			var root *x509.Certificate
			root, err = x509.ParseCertificate(block.Bytes)
			trust.Roots = append(trust.Roots, root)
		default:
			err = fmt.Errorf("a block %.40q", block.Type)
		}
		if err != nil {
			return cert, trust, err
		}
	}
	return cert, trust, nil
}
