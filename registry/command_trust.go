package registry

// RevokeIdentity revokes an identity with all of its certificates.
type RevokeIdentity struct {
	Proposal `json:"-"`
	// URI is the identity in the certificates.
	URI string `json:"uri"`
	// Until is when the last of its certificates will have expired.
	Until Timestamp `json:"until"`
}

// RevokeIdentityResult is the result of a RevokeIdentity.
type RevokeIdentityResult string

const (
	// IdentityRevoked: the identity is revoked, until the latest Until that was given.
	IdentityRevoked RevokeIdentityResult = "revoked"
	// TooManyRevoked: MaxRevoked identities are revoked already. Nothing was changed.
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

// SetTrust replaces the trusted roots, if they still have the given generation.
type SetTrust struct {
	Proposal `json:"-"`
	// Generation is the one to replace; 0 for the first.
	Generation uint64 `json:"generation"`
	Phase      string `json:"phase"`
	// Roots are certificates in DER.
	Roots [][]byte `json:"roots"`
}

// SwapResult is the result of a compare-and-swap of a generation.
type SwapResult string

const (
	// Swapped: the change was made.
	Swapped SwapResult = "set"
	// SwapStale: the current generation is another. Nothing was changed.
	SwapStale SwapResult = "stale_generation"
)

// TrustOutcome answers SetTrust. Trust is the current value.
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

// SetGossipKeys replaces the gossip encryption keys, if they still have the given generation.
type SetGossipKeys struct {
	Proposal `json:"-"`
	// Generation is the one to replace; 0 for the first.
	Generation uint64   `json:"generation"`
	Keys       [][]byte `json:"keys"`
}

// GossipKeysOutcome answers SetGossipKeys. Keys is the current value.
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
