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

// ErrBadProof: a request whose signature does not belong to this token or key,
// this connection, this nonce or these claims. The text says more than a joiner
// should be told.
var ErrBadProof = errors.New("certs: the proof does not hold")

const (
	// ExporterLabel is what both ends of a connection export to bind a request to
	// it, see Exporter.
	ExporterLabel = "EXPORTER-locus-join"
	// ExporterSize is the length of that value, in bytes.
	ExporterSize = 32
	// NonceSize is the length of the nonce that the mesh sends, in bytes.
	NonceSize = 32

	joinLabel    = "locus join 1"
	recoverLabel = "locus recover 1"
)

// Exporter gives the value that is the same at both ends of one TLS connection
// and on no other connection.
func Exporter(state tls.ConnectionState) ([]byte, error) {
	return state.ExportKeyingMaterial(ExporterLabel, nil, ExporterSize)
}

// NewNonce gives a random nonce. The mesh uses each for one request.
func NewNonce() []byte {
	nonce := make([]byte, NonceSize)
	rand.Read(nonce) // never fails
	return nonce
}

// JoinRequest asks for a first certificate. The signature is by the token's key
// over the cluster, the role, the joiner's key, the nonce and the connection: so
// whoever relays it can neither change the key nor use it elsewhere.
type JoinRequest struct {
	TokenID string `json:"token_id"`
	// SPKI is the joiner's public key.
	SPKI      []byte `json:"spki"`
	Nonce     []byte `json:"nonce"`
	Signature []byte `json:"signature"`
}

// Request proves to a cluster that the holder of this token wants a certificate
// for key, in answer to the nonce and over the connection of the exporter value.
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

// Verify checks the proof against what the mesh knows: its own cluster, the role
// and key of the token that TokenID names, the nonce that it sent on this
// connection, and the connection's exporter value. ErrBadProof, or ErrBadKey for
// a joiner's key that is not certified.
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

// Key gives the joiner's public key, or ErrBadKey.
func (r JoinRequest) Key() (crypto.PublicKey, error) { return ParseSPKI(r.SPKI) }

// proofOf is the message that is signed: every part after its length.
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
