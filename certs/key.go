package certs

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"
)

// ErrBadKey: not a public key that this mesh certifies. Those are Ed25519 and
// ECDSA on P-256.
var ErrBadKey = errors.New("certs: not a key that can be certified")

// maxSPKI bounds an encoded public key, in bytes. P-256 takes 91.
const maxSPKI = 128

// NewKey makes a private key as this package uses them. It fails only where the
// system has no randomness.
func NewKey() (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	return key, err
}

// SPKI encodes a public key the way that certificates and requests carry it.
func SPKI(key crypto.PublicKey) ([]byte, error) {
	switch k := key.(type) {
	case ed25519.PublicKey:
		if len(k) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("%w: %d bytes of Ed25519", ErrBadKey, len(k))
		}
	case *ecdsa.PublicKey:
		if k == nil || k.Curve != elliptic.P256() {
			return nil, fmt.Errorf("%w: another curve than P-256", ErrBadKey)
		}
	default:
		return nil, fmt.Errorf("%w: %T", ErrBadKey, key)
	}
	spki, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadKey, err)
	}
	return spki, nil
}

// ParseSPKI is the reverse of SPKI. It takes only what SPKI gives, byte for byte,
// so that one key has one hash.
func ParseSPKI(spki []byte) (crypto.PublicKey, error) {
	if len(spki) > maxSPKI {
		return nil, fmt.Errorf("%w: %d bytes", ErrBadKey, len(spki))
	}
	key, err := x509.ParsePKIXPublicKey(spki)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadKey, err)
	}
	again, err := SPKI(key)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(spki, again) {
		return nil, fmt.Errorf("%w: not its usual encoding", ErrBadKey)
	}
	return key, nil
}

// letters is base32 in lower case without padding: safe in a shell, in a file
// name and to read aloud.
var letters = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// KeyHash names a public key: SHA-256 of its SPKI in base32, 52 lower-case
// letters and digits.
func KeyHash(spki []byte) string {
	sum := sha256.Sum256(spki)
	return letters.EncodeToString(sum[:])
}

// Pin names a root by the KeyHash of its public key.
type Pin string

// PinOf gives the pin of a root.
func PinOf(root *x509.Certificate) Pin { return Pin(KeyHash(root.RawSubjectPublicKeyInfo)) }

func (p Pin) valid() bool {
	sum, err := letters.DecodeString(string(p))
	return err == nil && len(sum) == sha256.Size && !strings.ContainsAny(string(p), "\r\n")
}
