package registry

// RevokeIdentity ends the trust in an identity, whatever certificates it holds.
type RevokeIdentity struct {
	Proposal `json:"-"`
	URI      string `json:"uri"`
	// Until is when the last of its certificates will have run out.
	Until Timestamp `json:"until"`
}

// RevokeIdentityResult says what became of a RevokeIdentity.
type RevokeIdentityResult string

const (
	// IdentityRevoked: the identity is not trusted, until the later of what was said.
	IdentityRevoked RevokeIdentityResult = "revoked"
	// TooManyRevoked: MaxRevoked identities are revoked already; nothing was changed.
	TooManyRevoked RevokeIdentityResult = "limit"
)

// RevokeIdentityOutcome answers RevokeIdentity.
type RevokeIdentityOutcome struct {
	Result     RevokeIdentityResult `json:"result"`
	Revocation Revocation           `json:"revocation,omitzero"`
}

func (RevokeIdentity) kind() kind { return kindRevokeIdentity }

func (c RevokeIdentity) bounds() error { return checkBounds(isToken(c.URI, maxURI), c.Until > 0) }

func (c RevokeIdentity) apply(t tables, m moment) any {
	all := t.revocations()
	left := len(all)
	for _, old := range all {
		if old.Until < m.at-tokenMemory && old.URI != c.URI {
			t.remove(tableRevoked, old)
			left--
		}
	}
	r := Revocation{URI: c.URI, Until: c.Until, At: m.at}
	if have := t.revocation(c.URI); have != nil {
		r.Until, r.At = max(have.Until, c.Until), have.At
	} else if left >= MaxRevoked {
		return RevokeIdentityOutcome{Result: TooManyRevoked}
	}
	t.put(tableRevoked, &r)
	return RevokeIdentityOutcome{IdentityRevoked, r}
}

// SetTrust changes whom the mesh trusts to sign, if nobody has changed it since.
type SetTrust struct {
	Proposal `json:"-"`
	// Generation is the one that is to be replaced; 0 for the first.
	Generation uint64   `json:"generation"`
	Phase      string   `json:"phase"`
	Roots      [][]byte `json:"roots"`
}

// SwapResult says what became of a change that names the generation it replaces.
type SwapResult string

const (
	// Swapped: the change was made.
	Swapped SwapResult = "set"
	// SwapStale: another generation stands. Nothing was changed.
	SwapStale SwapResult = "stale_generation"
)

// TrustOutcome answers SetTrust. Trust is what stands now.
type TrustOutcome struct {
	Result SwapResult `json:"result"`
	Trust  Trust      `json:"trust"`
}

func (SetTrust) kind() kind { return kindSetTrust }

func (c SetTrust) bounds() error {
	return checkBounds(isToken(c.Phase, maxReason), isBlobs(c.Roots, maxRoots, maxRoot))
}

func (c SetTrust) apply(t tables, m moment) any {
	now := t.trust()
	if now.Generation != c.Generation {
		return TrustOutcome{SwapStale, now.clone()}
	}
	next := Trust{Generation: c.Generation + 1, Phase: c.Phase, Roots: c.Roots, ChangedAt: m.at}.clone()
	t.put(tableTrust, &next)
	return TrustOutcome{Swapped, next.clone()}
}

// SetGossipKeys changes the keys under which nodes gossip, if nobody has changed
// them since.
type SetGossipKeys struct {
	Proposal `json:"-"`
	// Generation is the one that is to be replaced; 0 for the first.
	Generation uint64   `json:"generation"`
	Keys       [][]byte `json:"keys"`
}

// GossipKeysOutcome answers SetGossipKeys. Keys is what stands now.
type GossipKeysOutcome struct {
	Result SwapResult `json:"result"`
	Keys   GossipKeys `json:"keys"`
}

func (SetGossipKeys) kind() kind { return kindSetGossipKeys }

func (c SetGossipKeys) bounds() error {
	return checkBounds(isBlobs(c.Keys, maxGossipKeys, maxGossipKey))
}

func (c SetGossipKeys) apply(t tables, m moment) any {
	now := t.gossipKeys()
	if now.Generation != c.Generation {
		return GossipKeysOutcome{SwapStale, now.clone()}
	}
	next := GossipKeys{Generation: c.Generation + 1, Keys: c.Keys, ChangedAt: m.at}.clone()
	t.put(tableGossip, &next)
	return GossipKeysOutcome{Swapped, next.clone()}
}
