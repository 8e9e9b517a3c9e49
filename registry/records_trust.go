package registry

import (
	"bytes"
	"maps"
	"slices"
)

// JoinToken lets its holder join the mesh with one role. The registry has only the public key
// of the token, with which nobody can join.
type JoinToken struct {
	ID string `json:"id"`
	// Public is the token's public key, as text.
	Public string `json:"public"`
	// Role is what the holder becomes, such as node, vm or link.
	Role string `json:"role"`
	// NotAfter is when it expires: no new key can join with it from then on.
	NotAfter Timestamp `json:"not_after"`
	// MaxUses bounds how many keys can join with it.
	MaxUses int               `json:"max_uses"`
	Labels  map[string]string `json:"labels,omitempty"`
	// Owner is the actor that a joining machine belongs to; empty for nodes.
	Owner string `json:"owner,omitempty"`
	// Issuer is the actor that created it.
	Issuer    string    `json:"issuer,omitempty"`
	CreatedAt Timestamp `json:"created_at"`
	// RevokedAt is 0 until the token is revoked.
	RevokedAt Timestamp `json:"revoked_at,omitempty"`
	// Uses are the keys that joined with it.
	Uses []TokenUse `json:"uses,omitempty"`
}

// TokenUse is a key that joined with a token, and the id that it was given.
type TokenUse struct {
	// Key is the SHA-256 of the key's SPKI in hexadecimal.
	Key TokenHash `json:"key"`
	// Node is the id that the joining node or machine was given.
	Node NodeID    `json:"node"`
	At   Timestamp `json:"at"`
}

func (j JoinToken) clone() JoinToken {
	j.Labels, j.Uses = maps.Clone(j.Labels), slices.Clone(j.Uses)
	return j
}

// Revocation is a revoked identity: none of its certificates is trusted.
type Revocation struct {
	// URI is the identity in the certificates.
	URI string `json:"uri"`
	// Until is when the last of its certificates expires; the record may be removed some
	// time after.
	Until Timestamp `json:"until"`
	At    Timestamp `json:"at"`
}

// Trust holds the trusted root certificates of the mesh. In the zero value none is set yet.
type Trust struct {
	// Generation counts the changes, from 1.
	Generation uint64 `json:"generation"`
	// Phase is the phase of a rotation of the root.
	Phase string `json:"phase"`
	// Roots are certificates in DER.
	Roots     [][]byte  `json:"roots"`
	ChangedAt Timestamp `json:"changed_at"`
}

func (t Trust) clone() Trust {
	t.Roots = cloneAll(t.Roots)
	return t
}

// GossipKeys are the encryption keys of gossip. The first one encrypts, all decrypt. In the
// zero value none is set yet.
type GossipKeys struct {
	// Generation counts the changes, from 1.
	Generation uint64    `json:"generation"`
	Keys       [][]byte  `json:"keys"`
	ChangedAt  Timestamp `json:"changed_at"`
}

func (g GossipKeys) clone() GossipKeys {
	g.Keys = cloneAll(g.Keys)
	return g
}

func cloneAll(all [][]byte) [][]byte {
	copies := slices.Clone(all)
	for i := range copies {
		copies[i] = bytes.Clone(copies[i])
	}
	return copies
}

// ReservedKey is an idempotency key of an actor, and the call that it is bound to.
type ReservedKey struct {
	Actor string `json:"actor"`
	// Key is the idempotency key as the caller sent it.
	Key string `json:"key"`
	// Digest is that of the arguments, to distinguish a repetition from another call.
	Digest string `json:"digest"`
	// CallID is the call that it runs, Home the node that holds that call's record.
	CallID string    `json:"call_id"`
	Home   NodeID    `json:"home"`
	At     Timestamp `json:"at"`
}
