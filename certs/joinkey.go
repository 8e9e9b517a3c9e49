package certs

import (
	"crypto/ed25519"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// JoinKey returns the private key in a file, for a JoinRequest; it makes key and file if there
// is none. The caller removes the file once it has saved its Credentials. Until then a joiner
// that was interrupted asks with the same key again, and so gets the same identity.
func JoinKey(path string) (ed25519.PrivateKey, error) {
	der, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return newJoinKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("certs: read the join key: %w", err)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	key, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, fmt.Errorf("certs: %s is not a private key: remove it and join again", path)
	}
	return key, nil
}

func newJoinKey(path string) (ed25519.PrivateKey, error) {
	key, err := NewKey()
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err == nil {
		err = ReplaceFile(path, der)
	}
	if err != nil {
		return nil, fmt.Errorf("certs: save the join key: %w", err)
	}
	return key, nil
}
