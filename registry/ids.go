package registry

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// NodeID identifies a node. It stays the same as long as the node's data directory exists.
type NodeID string

// Incarnation numbers the registrations of a node, from 1; 0 is none. Each registration
// begins a new incarnation, whose sessions start out empty.
type Incarnation uint64

// Epoch identifies one grant of ownership of a session. It is derived from the log index of
// the granting command, so it strictly increases per session key. 0 is none.
type Epoch uint64

// RequestID identifies a command, however often it is sent. The zero value is none.
type RequestID [16]byte

// NewRequestID draws a random request id.
func NewRequestID() RequestID {
	var id RequestID
	_, _ = rand.Read(id[:]) // crypto/rand never fails; it ends the process instead
	return id
}

// String returns the id in hexadecimal.
func (id RequestID) String() string { return hex.EncodeToString(id[:]) }

// MarshalText encodes the id in hexadecimal.
func (id RequestID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText decodes an id in hexadecimal.
func (id *RequestID) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(id)) {
		return fmt.Errorf("a request id has %d hexadecimal digits, got %d", hex.EncodedLen(len(id)), len(text))
	}
	_, err := hex.Decode(id[:], text)
	return err
}

// Timestamp is a time by the proposer's clock, in nanoseconds since 1970 UTC. Commands carry
// it, because the state machine reads no clock. 0 is none.
type Timestamp int64

// At turns a time into a timestamp.
func At(t time.Time) Timestamp { return Timestamp(t.UnixNano()) }

// Time returns the time in UTC; the zero time for 0.
func (t Timestamp) Time() time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(t)).UTC()
}

// TokenHash is the SHA-256 of a bearer token in hexadecimal. Tokens themselves
// never reach the registry.
type TokenHash string

// HashToken hashes a bearer token.
func HashToken(token string) TokenHash {
	sum := sha256.Sum256([]byte(token))
	return TokenHash(hex.EncodeToString(sum[:]))
}

// Grant is the fencing token of a session's owner: node, incarnation and epoch. A command
// whose grant is not the session's current one changes nothing.
type Grant struct {
	Node        NodeID      `json:"node"`
	Incarnation Incarnation `json:"incarnation"`
	Epoch       Epoch       `json:"epoch"`
}
