package registry

import "slices"

// CreateToken stores a join token.
type CreateToken struct {
	Proposal `json:"-"`
	ID       string `json:"id"`
	// Public is the token's public key as text, Role what its holder becomes.
	Public   string    `json:"public"`
	Role     string    `json:"role"`
	NotAfter Timestamp `json:"not_after"`
	// MaxUses bounds how many keys can join with the token.
	MaxUses int               `json:"max_uses"`
	Labels  map[string]string `json:"labels,omitempty"`
	// Owner is the actor that joining machines belong to, Issuer the actor that created the
	// token; each may be empty.
	Owner  string `json:"owner,omitempty"`
	Issuer string `json:"issuer,omitempty"`
}

// CreateTokenResult is the result of a CreateToken.
type CreateTokenResult string

const (
	// TokenCreated: the token was stored. Token is its record.
	TokenCreated CreateTokenResult = "created"
	// TokenExists: the id was used before. Token is its record.
	TokenExists CreateTokenResult = "exists"
	// TooManyTokens: there are MaxJoinTokens already.
	TooManyTokens CreateTokenResult = "limit"
)

// CreateTokenOutcome answers CreateToken. What Token holds depends on Result.
type CreateTokenOutcome struct {
	Result CreateTokenResult `json:"result"`
	Token  JoinToken         `json:"token,omitzero"`
}

func (CreateToken) kind() kind { return kindCreateToken }

func (c CreateToken) bounds() error {
	return checkBounds(isToken(c.ID, maxText), isToken(c.Public, maxText), isToken(c.Role, maxReason), c.NotAfter > 0,
		c.MaxUses >= 1 && c.MaxUses <= MaxTokenUses, IsLabels(c.Labels), isText(c.Owner, maxText), isText(c.Issuer, maxText))
}

func (c CreateToken) apply(t tables, m moment) any {
	tokens := t.joinTokens()
	for _, old := range tokens {
		if old.NotAfter < m.at-tokenMemory {
			t.remove(tableTokens, old)
		}
	}
	if have := t.joinToken(c.ID); have != nil {
		return CreateTokenOutcome{TokenExists, have.clone()}
	}
	if len(t.joinTokens()) >= MaxJoinTokens {
		return CreateTokenOutcome{Result: TooManyTokens}
	}
	made := JoinToken{
		ID: c.ID, Public: c.Public, Role: c.Role, NotAfter: c.NotAfter, MaxUses: c.MaxUses, Labels: c.Labels,
		Owner: c.Owner, Issuer: c.Issuer, CreatedAt: m.at,
	}.clone()
	t.put(tableTokens, &made)
	return CreateTokenOutcome{TokenCreated, made.clone()}
}

// UseToken lets a key join with a token. It is idempotent: the same key gets the same id.
type UseToken struct {
	Proposal `json:"-"`
	ID       string `json:"id"`
	// Key is the SHA-256 of the joining key's SPKI in hexadecimal.
	Key TokenHash `json:"key"`
	// Node is the id to give to the joining node or machine.
	Node NodeID `json:"node"`
}

// UseTokenResult is the result of a UseToken.
type UseTokenResult string

const (
	// TokenUsed: the key has joined by this command. Use has its id.
	TokenUsed UseTokenResult = "used"
	// TokenUsedBefore: the key had joined with this token before. Use has its id.
	TokenUsedBefore UseTokenResult = "used_before"
	// TokenExpired: the token has expired, by the proposer's clock.
	TokenExpired UseTokenResult = "expired"
	// TokenUnknown: there is no such token, or no longer.
	TokenUnknown UseTokenResult = "unknown"
	// TokenSpent: MaxUses other keys have joined with it.
	TokenSpent UseTokenResult = "spent"
	// TokenWithdrawn: the token is revoked.
	TokenWithdrawn UseTokenResult = "revoked"
)

// UseTokenOutcome answers UseToken. Token is set except for TokenUnknown, Use if the key has
// joined.
type UseTokenOutcome struct {
	Result UseTokenResult `json:"result"`
	Token  JoinToken      `json:"token,omitzero"`
	Use    TokenUse       `json:"use,omitzero"`
}

func (UseToken) kind() kind { return kindUseToken }

func (c UseToken) bounds() error {
	return checkBounds(isToken(c.ID, maxText), isHash(c.Key), isToken(string(c.Node), maxText))
}

func (c UseToken) apply(t tables, m moment) any {
	have := t.joinToken(c.ID)
	if have == nil {
		return UseTokenOutcome{Result: TokenUnknown}
	}
	used := have.clone()
	at := slices.IndexFunc(used.Uses, func(u TokenUse) bool { return u.Key == c.Key })
	switch {
	case have.RevokedAt != 0:
		return UseTokenOutcome{Result: TokenWithdrawn, Token: used}
	case at >= 0:
		return UseTokenOutcome{TokenUsedBefore, used, used.Uses[at]}
	case have.NotAfter <= m.at:
		return UseTokenOutcome{Result: TokenExpired, Token: used}
	case len(have.Uses) >= have.MaxUses:
		return UseTokenOutcome{Result: TokenSpent, Token: used}
	}
	use := TokenUse{Key: c.Key, Node: c.Node, At: m.at}
	used.Uses = append(used.Uses, use)
	t.put(tableTokens, &used)
	return UseTokenOutcome{TokenUsed, used.clone(), use}
}

// RevokeToken revokes a join token. Members that joined with it before stay.
type RevokeToken struct {
	Proposal `json:"-"`
	ID       string `json:"id"`
}

// RevokeTokenOutcome answers RevokeToken. Result is TokenWithdrawn, also if it was revoked
// before, or TokenUnknown.
type RevokeTokenOutcome struct {
	Result UseTokenResult `json:"result"`
	Token  JoinToken      `json:"token,omitzero"`
}

func (RevokeToken) kind() kind { return kindRevokeToken }

func (c RevokeToken) bounds() error { return checkBounds(isToken(c.ID, maxText)) }

func (c RevokeToken) apply(t tables, m moment) any {
	have := t.joinToken(c.ID)
	if have == nil {
		return RevokeTokenOutcome{Result: TokenUnknown}
	}
	return RevokeTokenOutcome{TokenWithdrawn, t.withdraw(have, m)}
}

// withdraw revokes a token and returns its record.
func (t tables) withdraw(have *JoinToken, m moment) JoinToken {
	gone := have.clone()
	if gone.RevokedAt == 0 {
		gone.RevokedAt = m.at
		t.put(tableTokens, &gone)
	}
	return gone.clone()
}
