package registry

import (
	"bytes"
	"maps"
	"slices"
)

// JoinToken lets its holder become a member of the mesh with one role. The
// registry holds nothing with which a token could be used: only its public key.
type JoinToken struct {
	ID string `json:"id"`
	// Public is the token's public key, as text.
	Public string `json:"public"`
	// Role is what the holder becomes, such as node, vm or link.
	Role string `json:"role"`
	// NotAfter is from when on it is good for nobody new.
	NotAfter Timestamp         `json:"not_after"`
	MaxUses  int               `json:"max_uses"`
	Labels   map[string]string `json:"labels,omitempty"`
	// Owner is the person whose machine joins, where there is one.
	Owner string `json:"owner,omitempty"`
	// Issuer is who made it.
	Issuer    string    `json:"issuer,omitempty"`
	CreatedAt Timestamp `json:"created_at"`
	RevokedAt Timestamp `json:"revoked_at,omitempty"`
	// Uses are the keys that joined by it.
	Uses []TokenUse `json:"uses,omitempty"`
}

// TokenUse is one key that joined by a token, and the id that it was given.
type TokenUse struct {
	// Key is the SHA-256 of the key's SPKI in hexadecimal.
	Key  TokenHash `json:"key"`
	Node NodeID    `json:"node"`
	At   Timestamp `json:"at"`
}

func (j JoinToken) clone() JoinToken {
	j.Labels, j.Uses = maps.Clone(j.Labels), slices.Clone(j.Uses)
	return j
}

// Revocation is an identity that is not trusted any more, whatever its
// certificates say.
type Revocation struct {
	URI string `json:"uri"`
	// Until is when the last of its certificates has run out; after that the record
	// may go.
	Until Timestamp `json:"until"`
	At    Timestamp `json:"at"`
}

// Trust is whom the mesh trusts to sign certificates. The zero value is nothing
// yet.
type Trust struct {
	// Generation counts the changes, from 1.
	Generation uint64 `json:"generation"`
	// Phase names the step of a rotation.
	Phase string `json:"phase"`
	// Roots are certificates in DER.
	Roots     [][]byte  `json:"roots"`
	ChangedAt Timestamp `json:"changed_at"`
}

func (t Trust) clone() Trust {
	t.Roots = cloneAll(t.Roots)
	return t
}

// GossipKeys are the keys under which nodes gossip; the first one encrypts. The
// zero value is none yet.
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

// ReservedKey is an idempotency key that an actor has used, and the call that
// stands for it.
type ReservedKey struct {
	Actor string `json:"actor"`
	Key   string `json:"key"`
	// Digest is of the arguments, to tell a repetition from another call.
	Digest string    `json:"digest"`
	CallID string    `json:"call_id"`
	Home   NodeID    `json:"home"`
	At     Timestamp `json:"at"`
}
