package certs

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrBadProof: the signature of a request does not match the token or key, the connection,
// the nonce or the claims. The text says more than a joiner should be told.
var ErrBadProof = errors.New("certs: the proof does not hold")

const (
	// ExporterLabel is the TLS exporter label by which a request is bound to a connection;
	// see Exporter.
	ExporterLabel = "EXPORTER-locus-join"
	// ExporterSize is the length of that value, in bytes.
	ExporterSize = 32
	// NonceSize is the length of the nonce that the mesh sends, in bytes.
	NonceSize = 32

	joinLabel    = "locus join 1"
	recoverLabel = "locus recover 1"
)

// Exporter returns a value that is the same at both ends of a TLS connection and differs from
// that of every other connection.
func Exporter(state tls.ConnectionState) ([]byte, error) {
	return state.ExportKeyingMaterial(ExporterLabel, nil, ExporterSize)
}

// NewNonce returns a random nonce, to be used for one request.
func NewNonce() []byte {
	nonce := make([]byte, NonceSize)
	rand.Read(nonce) // never fails
	return nonce
}

// JoinRequest asks for a first certificate. The token's key signs the cluster, the role, the
// joiner's key, the nonce and the connection, so a relay can neither replace the joiner's key
// nor replay the request on another connection.
type JoinRequest struct {
	TokenID string `json:"token_id"`
	// SPKI is the joiner's public key.
	SPKI      []byte `json:"spki"`
	Nonce     []byte `json:"nonce"`
	Signature []byte `json:"signature"`
}

// Request proves to a cluster that the holder of this token wants a certificate for key. The
// proof is bound to the nonce and to the connection with the exporter value.
func (t Token) Request(cluster string, key crypto.PublicKey, nonce, exporter []byte) (JoinRequest, error) {
	spki, err := SPKI(key)
	if err != nil {
		return JoinRequest{}, err
	}
	message, err := proofOf(joinLabel, cluster, string(t.Role)+"/"+t.ID, spki, nonce, exporter)
	if err != nil {
		return JoinRequest{}, err
	}
	return JoinRequest{t.ID, spki, nonce, ed25519.Sign(ed25519.NewKeyFromSeed(t.Seed[:]), message)}, nil
}

// Verify checks the proof against the mesh's own cluster, the role and key of the token that
// TokenID names, the nonce that was sent on this connection, and the connection's exporter
// value. It fails with ErrBadProof, or with ErrBadKey if the joiner's key is not acceptable.
func (r JoinRequest) Verify(cluster string, role Role, tokenKey ed25519.PublicKey, nonce, exporter []byte) error {
	if _, err := ParseSPKI(r.SPKI); err != nil {
		return err
	}
	if subtle.ConstantTimeCompare(r.Nonce, nonce) != 1 {
		return fmt.Errorf("%w: another nonce", ErrBadProof)
	}
	message, err := proofOf(joinLabel, cluster, string(role)+"/"+r.TokenID, r.SPKI, nonce, exporter)
	if err != nil {
		return err
	}
	if len(tokenKey) != ed25519.PublicKeySize || !ed25519.Verify(tokenKey, message, r.Signature) {
		return fmt.Errorf("%w: another signature", ErrBadProof)
	}
	return nil
}

// Key returns the joiner's public key, or ErrBadKey.
func (r JoinRequest) Key() (crypto.PublicKey, error) { return ParseSPKI(r.SPKI) }

// proofOf returns the message to sign: every part preceded by its length.
func proofOf(label, cluster, subject string, spki, nonce, exporter []byte) ([]byte, error) {
	if len(nonce) != NonceSize || len(exporter) != ExporterSize {
		return nil, fmt.Errorf("%w: a nonce of %d bytes, an exporter value of %d", ErrBadProof, len(nonce), len(exporter))
	}
	key := sha256.Sum256(spki)
	var message []byte
	for _, part := range [][]byte{[]byte(label), []byte(cluster), []byte(subject), key[:], nonce, exporter} {
		message = binary.BigEndian.AppendUint32(message, uint32(len(part)))
		message = append(message, part...)
	}
	return message, nil
}
