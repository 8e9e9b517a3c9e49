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

// ErrBadKey: not a public key that this mesh certifies, which are Ed25519 and ECDSA on P-256.
var ErrBadKey = errors.New("certs: not a key that can be certified")

// maxSPKI bounds an encoded public key, in bytes. One on P-256 has 91.
const maxSPKI = 128

// NewKey makes a private key of the kind that this package uses. It fails only if the system
// has no randomness.
func NewKey() (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	return key, err
}

// SPKI encodes a public key as in certificates and requests.
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

// ParseSPKI is the inverse of SPKI. It accepts only the exact encoding of SPKI, so that a key
// has only one hash.
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

// letters is lower-case base32 without padding: safe in shells and file names, and easy to
// read aloud.
var letters = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// KeyHash identifies a public key by the SHA-256 of its SPKI in base32, 52 lower-case letters
// and digits.
func KeyHash(spki []byte) string {
	sum := sha256.Sum256(spki)
	return letters.EncodeToString(sum[:])
}

// Pin identifies a root by the KeyHash of its public key.
type Pin string

// PinOf returns the pin of a root.
func PinOf(root *x509.Certificate) Pin { return Pin(KeyHash(root.RawSubjectPublicKeyInfo)) }

func (p Pin) valid() bool {
	sum, err := letters.DecodeString(string(p))
	return err == nil && len(sum) == sha256.Size && !strings.ContainsAny(string(p), "\r\n")
}
