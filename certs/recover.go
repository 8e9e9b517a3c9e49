package certs

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"time"
)

// RecoveryWindow is how long after its expiry a certificate may still be used to get a new one.
const RecoveryWindow = 30 * 24 * time.Hour

// RecoverRequest asks for a new certificate when the old one has expired or its root is no
// longer trusted, as after a laptop has slept for long. It is signed with the old
// certificate's key and, like a JoinRequest, bound to one connection.
type RecoverRequest struct {
	// Certificates is the old chain in DER, leaf first.
	Certificates [][]byte `json:"certificates"`
	// SPKI is the new public key.
	SPKI      []byte `json:"spki"`
	Nonce     []byte `json:"nonce"`
	Signature []byte `json:"signature"`
}

// Recovered is what a RecoverRequest has proved.
type Recovered struct {
	Identity Identity
	// OldKey is the KeyHash of the old certificate's key. The mesh issues a new certificate
	// only if this is the last key that it certified for the identity; otherwise two
	// machines are using one identity.
	OldKey string
	// Key is the new public key.
	Key crypto.PublicKey
}

// Recover proves that the holder of these credentials wants a certificate for another key. The
// proof is bound to the nonce and to the connection with the exporter value.
func (c *Credentials) Recover(key crypto.PublicKey, nonce, exporter []byte) (RecoverRequest, error) {
	spki, err := SPKI(key)
	if err != nil {
		return RecoverRequest{}, err
	}
	message, err := proofOf(recoverLabel, c.identity.Cluster, c.identity.String(), spki, nonce, exporter)
	if err != nil {
		return RecoverRequest{}, err
	}
	cert := c.Certificate()
	signer, hash := cert.PrivateKey.(crypto.Signer), crypto.SHA256
	if _, pure := signer.Public().(ed25519.PublicKey); pure {
		hash = 0
	}
	signature, err := crypto.SignMessage(signer, rand.Reader, message, hash)
	if err != nil {
		return RecoverRequest{}, fmt.Errorf("certs: sign: %w", err)
	}
	return RecoverRequest{cert.Certificate, spki, nonce, signature}, nil
}

// Verify checks the proof for a cluster and the roots that it has had within RecoveryWindow.
// The caller must check that the identity is not revoked and that OldKey is its last key. It
// fails with ErrBadProof or ErrBadKey, or like VerifyClient.
func (r RecoverRequest) Verify(cluster string, roots []*x509.Certificate, nonce, exporter []byte, now time.Time) (Recovered, error) {
	key, err := ParseSPKI(r.SPKI)
	if err != nil {
		return Recovered{}, err
	}
	if !bytes.Equal(r.Nonce, nonce) {
		return Recovered{}, fmt.Errorf("%w: another nonce", ErrBadProof)
	}
	if len(r.Certificates) == 0 || len(r.Certificates) > maxChain {
		return Recovered{}, fmt.Errorf("%w: %d certificates", ErrUntrusted, len(r.Certificates))
	}
	var chain []*x509.Certificate
	for _, der := range r.Certificates {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return Recovered{}, fmt.Errorf("%w: %w", ErrUntrusted, err)
		}
		chain = append(chain, cert)
	}
	leaf := chain[0]
	when := now
	if now.After(leaf.NotAfter) && !now.After(leaf.NotAfter.Add(RecoveryWindow)) {
		when = leaf.NotAfter
	}
	id, err := verify(chain, Trust{Roots: roots}.pool(), x509.ExtKeyUsageClientAuth, when)
	if err != nil {
		return Recovered{}, err
	}
	if id.Cluster != cluster {
		return Recovered{}, fmt.Errorf("%w: %s", ErrWrongCluster, id)
	}
	message, err := proofOf(recoverLabel, cluster, id.String(), r.SPKI, nonce, exporter)
	if err != nil {
		return Recovered{}, err
	}
	algorithm := x509.PureEd25519
	if _, ok := leaf.PublicKey.(*ecdsa.PublicKey); ok {
		algorithm = x509.ECDSAWithSHA256
	}
	if err := leaf.CheckSignature(algorithm, message, r.Signature); err != nil {
		return Recovered{}, fmt.Errorf("%w: %w", ErrBadProof, err)
	}
	return Recovered{Identity: id, OldKey: KeyHash(leaf.RawSubjectPublicKeyInfo), Key: key}, nil
}
