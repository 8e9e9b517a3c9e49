package registry

import (
	"maps"
	"slices"
	"time"
)

// rest is the part of the model that is not about nodes, actors, sessions and the library.
type rest struct {
	tokens  map[string]JoinToken
	revoked map[string]Revocation
	trust   Trust
	gossip  GossipKeys
	keys    map[[2]string]ReservedKey
	shelf   library
	// machines by their ids
	machines map[string]Machine
}

func newRest() rest {
	return rest{tokens: map[string]JoinToken{}, revoked: map[string]Revocation{}, keys: map[[2]string]ReservedKey{}, shelf: newLibrary(), machines: map[string]Machine{}}
}

// weeks is how long ended records are kept.
const weeks = Timestamp(7 * 24 * time.Hour)

func (m *model) doTend(c command, at Timestamp) any {
	switch c := c.(type) {
	case DrainNode:
		n, ok := m.nodes[c.ID]
		if !ok {
			return NodeOutcome{Result: NodeUnknown}
		}
		n.Draining = c.Draining
		m.nodes[c.ID] = n
		return NodeOutcome{Result: NodeChanged, Node: n}
	case LabelNode:
		n, ok := m.nodes[c.ID]
		if !ok {
			return NodeOutcome{Result: NodeUnknown}
		}
		n.Labels, n.Labelled = c.Labels, len(c.Labels) > 0
		m.nodes[c.ID] = n
		return NodeOutcome{Result: NodeChanged, Node: n}
	case RemoveNode:
		n, ok := m.nodes[c.ID]
		if !ok {
			return NodeOutcome{Result: NodeUnknown}
		}
		if n.State != NodeExpired && c.Stopped != n.Incarnation {
			return NodeOutcome{Result: NodeServing, Node: n}
		}
		out := NodeOutcome{Result: NodeChanged, Node: n}
		for _, s := range m.sessions {
			if s.Owner == c.ID && s.State != SessionLost {
				m.lose(s, LossNodeRemoved, at)
				out.Lost++
			}
		}
		delete(m.nodes, c.ID)
		for id, v := range m.rest.shelf.venvs {
			m.rest.shelf.venvs[id] = without(v, c.ID)
		}
		m.lastLife = max(m.lastLife, n.Incarnation)
		return out
	case ReserveKey:
		return m.reserve(c, at)
	}
	return m.doTrust(c, at)
}

func (m *model) reserve(c ReserveKey, at Timestamp) any {
	if a, ok := m.actors[c.Actor]; !ok || a.EndedAt != 0 {
		return ReserveKeyOutcome{Result: KeyNoActor}
	}
	day := Timestamp(24 * time.Hour)
	k := [2]string{c.Actor, c.Key}
	if have, ok := m.rest.keys[k]; ok && at-have.At < day {
		if have.Digest == c.Digest {
			return ReserveKeyOutcome{KeySame, have}
		}
		return ReserveKeyOutcome{KeyConflict, have}
	}
	for old, have := range m.rest.keys { // fewer than are dropped at once
		if at-have.At >= day {
			delete(m.rest.keys, old)
		}
	}
	made := ReservedKey{c.Actor, c.Key, c.Digest, c.CallID, c.Home, at}
	m.rest.keys[k] = made
	return ReserveKeyOutcome{KeyReserved, made}
}

func (m *model) doTrust(c command, at Timestamp) any {
	switch c := c.(type) {
	case CreateToken:
		maps.DeleteFunc(m.rest.tokens, func(_ string, j JoinToken) bool { return at-j.NotAfter > weeks })
		if have, ok := m.rest.tokens[c.ID]; ok {
			return CreateTokenOutcome{TokenExists, have}
		}
		made := JoinToken{ID: c.ID, Public: c.Public, Role: c.Role, NotAfter: c.NotAfter, MaxUses: c.MaxUses, Owner: c.Owner, CreatedAt: at}
		m.rest.tokens[c.ID] = made
		return CreateTokenOutcome{TokenCreated, made}
	case UseToken:
		j, ok := m.rest.tokens[c.ID]
		if !ok {
			return UseTokenOutcome{Result: TokenUnknown}
		}
		if j.RevokedAt != 0 {
			return UseTokenOutcome{Result: TokenWithdrawn, Token: j}
		}
		for _, u := range j.Uses {
			if u.Key == c.Key {
				return UseTokenOutcome{TokenUsedBefore, j, u}
			}
		}
		if at >= j.NotAfter {
			return UseTokenOutcome{Result: TokenExpired, Token: j}
		}
		if len(j.Uses) == j.MaxUses {
			return UseTokenOutcome{Result: TokenSpent, Token: j}
		}
		use := TokenUse{c.Key, c.Node, at}
		j.Uses = append(slices.Clone(j.Uses), use)
		m.rest.tokens[c.ID] = j
		return UseTokenOutcome{TokenUsed, j, use}
	case RevokeToken:
		j, ok := m.rest.tokens[c.ID]
		if !ok {
			return RevokeTokenOutcome{Result: TokenUnknown}
		}
		if j.RevokedAt == 0 {
			j.RevokedAt = at
			m.rest.tokens[c.ID] = j
		}
		return RevokeTokenOutcome{TokenWithdrawn, j}
	case RevokeIdentity:
		maps.DeleteFunc(m.rest.revoked, func(uri string, r Revocation) bool { return uri != c.URI && at-r.Until > weeks })
		r, ok := m.rest.revoked[c.URI]
		if !ok {
			r = Revocation{c.URI, c.Until, at}
		}
		r.Until = max(r.Until, c.Until)
		m.rest.revoked[c.URI] = r
		return RevokeIdentityOutcome{IdentityRevoked, r}
	case SetTrust:
		if c.Generation != m.rest.trust.Generation {
			return TrustOutcome{SwapStale, m.rest.trust}
		}
		m.rest.trust = Trust{c.Generation + 1, c.Phase, c.Roots, at}
		return TrustOutcome{Swapped, m.rest.trust}
	case SetGossipKeys:
		if c.Generation != m.rest.gossip.Generation {
			return GossipKeysOutcome{SwapStale, m.rest.gossip}
		}
		m.rest.gossip = GossipKeys{c.Generation + 1, c.Keys, at}
		return GossipKeysOutcome{Swapped, m.rest.gossip}
	}
	return m.doMachines(c, at)
}
