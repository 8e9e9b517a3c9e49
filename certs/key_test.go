package certs

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"math/big"
	"testing"
)

func ecdsaKey(t testing.TB, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	return must(t, key, err)
}

func TestKeysAreReadBack(t *testing.T) {
	for _, key := range []crypto.PublicKey{newKey(t).Public(), ecdsaKey(t, elliptic.P256()).Public()} {
		spki, err := SPKI(key)
		must(t, spki, err)
		got, err := ParseSPKI(spki)
		if err != nil || !got.(interface{ Equal(crypto.PublicKey) bool }).Equal(key) {
			t.Errorf("%T: %v", key, err)
		}
		if hash := KeyHash(spki); !Pin(hash).valid() {
			t.Errorf("hash %q", hash)
		}
	}
}

func TestOtherKeysAreRefused(t *testing.T) {
	small := &rsa.PublicKey{N: new(big.Int).Lsh(big.NewInt(1), 2047), E: 65537}
	for _, key := range []crypto.PublicKey{
		nil, small, ecdsaKey(t, elliptic.P384()).Public(), ed25519.PublicKey{1, 2}, (*ecdsa.PublicKey)(nil), newKey(t),
	} {
		if _, err := SPKI(key); !errors.Is(err, ErrBadKey) {
			t.Errorf("%T: %v", key, err)
		}
		if _, err := authority(t).Issue(node("n"), key, authorityTime, DefaultLifetime); !errors.Is(err, ErrBadKey) {
			t.Errorf("issued for %T: %v", key, err)
		}
	}
	other, err := x509.MarshalPKIXPublicKey(ecdsaKey(t, elliptic.P384()).Public())
	must(t, other, err)
	good, err := SPKI(newKey(t).Public())
	must(t, good, err)
	for _, spki := range [][]byte{nil, {}, {0x30}, other, good[:len(good)-1], append(bytes.Clone(good), 0), make([]byte, maxSPKI+1)} {
		if _, err := ParseSPKI(spki); !errors.Is(err, ErrBadKey) {
			t.Errorf("%x: %v", spki, err)
		}
	}
}

func FuzzParseSPKI(f *testing.F) {
	for _, key := range []crypto.PublicKey{newKey(f).Public(), ecdsaKey(f, elliptic.P256()).Public()} {
		spki, err := SPKI(key)
		f.Add(must(f, spki, err))
	}
	f.Fuzz(func(t *testing.T, spki []byte) {
		key, err := ParseSPKI(spki)
		if err != nil {
			return
		}
		if again, err := SPKI(key); err != nil || !bytes.Equal(again, spki) {
			t.Fatalf("%x became %x, %v", spki, again, err)
		}
	})
}
