package certs

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"golang.org/x/crypto/chacha20poly1305"
)

var (
	// ErrSealBroken: the key is wrong or the sealed bytes were changed, which cannot be
	// distinguished.
	ErrSealBroken = errors.New("certs: the seal of the authority does not open")
	// ErrBadAuthority: not an exported authority, or its parts do not match.
	ErrBadAuthority = errors.New("certs: not an authority")
)

// sealMagic begins every sealed authority and includes the version of the format. It is
// followed by the length of the cluster id in one byte, the cluster id, a nonce, and the
// ciphertext. Everything before the nonce is authenticated with the ciphertext.
const sealMagic = "locus-ca1"

// maxSealed bounds a sealed or exported authority, in bytes.
const maxSealed = 16 << 10

// SealKey is a random key that encrypts an authority at rest.
type SealKey [32]byte

// String hides the key.
func (SealKey) String() string { return "SealKey(hidden)" }

// GoString hides the key.
func (k SealKey) GoString() string { return k.String() }

// LogValue hides the key.
func (k SealKey) LogValue() slog.Value { return slog.StringValue(k.String()) }

// Seal encrypts the authority. Its cluster id stays readable and is authenticated.
func (a *Authority) Seal(key SealKey) ([]byte, error) {
	plain, err := a.Export()
	if err != nil {
		return nil, err
	}
	defer clear(plain)
	aead, err := chacha20poly1305.NewX(key[:])
	if err != nil {
		return nil, fmt.Errorf("certs: seal: %w", err)
	}
	head := append([]byte(sealMagic), byte(len(a.cluster)))
	head = append(head, a.cluster...)
	nonce := make([]byte, aead.NonceSize())
	rand.Read(nonce) // never fails
	return aead.Seal(append(bytes.Clone(head), nonce...), nonce, plain, head), nil
}

// OpenAuthority decrypts the result of Seal. It fails with ErrSealBroken.
func OpenAuthority(sealed []byte, key SealKey) (*Authority, error) {
	rest, ok := bytes.CutPrefix(sealed, []byte(sealMagic))
	if !ok || len(sealed) > maxSealed || len(rest) == 0 {
		return nil, fmt.Errorf("%w: not a sealed authority", ErrSealBroken)
	}
	headSize := len(sealMagic) + 1 + int(rest[0])
	if len(sealed) < headSize+chacha20poly1305.NonceSizeX {
		return nil, fmt.Errorf("%w: it is too short", ErrSealBroken)
	}
	head, body := sealed[:headSize], sealed[headSize:]
	aead, err := chacha20poly1305.NewX(key[:])
	if err != nil {
		return nil, fmt.Errorf("certs: open: %w", err)
	}
	nonce, ciphertext := body[:chacha20poly1305.NonceSizeX], body[chacha20poly1305.NonceSizeX:]
	plain, err := aead.Open(nil, nonce, ciphertext, head)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSealBroken, err)
	}
	defer clear(plain)
	a, err := ParseAuthority(plain)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSealBroken, err)
	}
	if a.cluster != string(head[len(sealMagic)+1:]) {
		return nil, fmt.Errorf("%w: it is that of cluster %s", ErrSealBroken, a.cluster)
	}
	return a, nil
}

// exported is the encoding of an authority. Version distinguishes later formats.
type exported struct {
	Version int    `json:"version"`
	Seed    []byte `json:"seed"`
	Root    []byte `json:"root"`
	Cross   []byte `json:"cross,omitempty"`
}

const exportVersion = 1

// Export encodes the authority with its private key in clear, to send it to another voter over
// a mutually authenticated connection. Use Seal to store it.
func (a *Authority) Export() ([]byte, error) {
	return json.Marshal(exported{exportVersion, a.key.Seed(), a.root.Raw, a.cross})
}

// ParseAuthority decodes the result of Export. It fails with ErrBadAuthority.
func ParseAuthority(b []byte) (*Authority, error) {
	if len(b) > maxSealed {
		return nil, fmt.Errorf("%w: %d bytes", ErrBadAuthority, len(b))
	}
	var e exported
	if err := json.Unmarshal(b, &e); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadAuthority, err)
	}
	if e.Version != exportVersion || len(e.Seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("%w: version %d", ErrBadAuthority, e.Version)
	}
	root, err := x509.ParseCertificate(e.Root)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadAuthority, err)
	}
	a, err := newAuthority(ed25519.NewKeyFromSeed(e.Seed), root, e.Cross)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadAuthority, err)
	}
	return a, nil
}
