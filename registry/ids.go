package registry

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// NodeID names a node for as long as its data directory lives.
type NodeID string

// Incarnation counts the lives of a node. The registry issues it at each
// registration, from 1; 0 is no incarnation.
type Incarnation uint64

// Epoch is one grant of ownership of a session. It is the log index of the
// command that granted it, so it grows strictly per key. 0 is no epoch.
type Epoch uint64

// RequestID identifies one command, however often it is sent. The zero value
// is no request.
type RequestID [16]byte

// NewRequestID draws a random request id.
func NewRequestID() RequestID {
	var id RequestID
	_, _ = rand.Read(id[:]) // crypto/rand never fails; it ends the process instead
	return id
}

// String gives the id in hexadecimal.
func (id RequestID) String() string { return hex.EncodeToString(id[:]) }

// MarshalText gives the id in hexadecimal.
func (id RequestID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText takes an id in hexadecimal.
func (id *RequestID) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(id)) {
		return fmt.Errorf("a request id has %d hexadecimal digits, got %d", hex.EncodedLen(len(id)), len(text))
	}
	_, err := hex.Decode(id[:], text)
	return err
}

// Timestamp is a moment as the proposer's clock saw it, in nanoseconds since
// 1970 UTC. It is carried in commands; the state machine reads no clock. 0 is no
// moment.
type Timestamp int64

// At turns a time into a timestamp.
func At(t time.Time) Timestamp { return Timestamp(t.UnixNano()) }

// Time gives the moment in UTC, or the zero time for no moment.
func (t Timestamp) Time() time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(t)).UTC()
}

// TokenHash is the SHA-256 of a bearer token in hexadecimal. Tokens themselves
// never reach the registry.
type TokenHash string

// HashToken gives the hash under which a bearer token is known.
func HashToken(token string) TokenHash {
	sum := sha256.Sum256([]byte(token))
	return TokenHash(hex.EncodeToString(sum[:]))
}

// Grant is what an owner shows to change a session: which node, in which of its
// lives, under which epoch. A grant that is not the session's present one
// changes nothing.
type Grant struct {
	Node        NodeID      `json:"node"`
	Incarnation Incarnation `json:"incarnation"`
	Epoch       Epoch       `json:"epoch"`
}
