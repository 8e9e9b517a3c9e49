package registry

import (
	"maps"
	"slices"
)

// CreateActor makes an actor. The name of an actor that is over may be used
// again, by an actor with another id.
type CreateActor struct {
	Proposal `json:"-"`
	Name     string `json:"name"`
	ID       string `json:"id"`
	// Token is the hash of its first bearer token; empty for none yet.
	Token TokenHash `json:"token,omitempty"`
	// Operator lets the actor do what changes the mesh.
	Operator bool `json:"operator,omitempty"`
	// Labels are what a node must have for the actor's code to be placed there.
	Labels map[string]string `json:"labels,omitempty"`
}

// CreateActorResult says what became of a CreateActor.
type CreateActorResult string

const (
	// ActorCreated: the actor is there. Actor is its record.
	ActorCreated CreateActorResult = "created"
	// ActorExists: a living actor has the name. Actor is its record.
	ActorExists CreateActorResult = "exists"
	// ActorTokenTaken: the token is another actor's. Nothing was made.
	ActorTokenTaken CreateActorResult = "token_taken"
)

// CreateActorOutcome answers CreateActor. What Actor holds depends on Result.
type CreateActorOutcome struct {
	Result CreateActorResult `json:"result"`
	Actor  Actor             `json:"actor,omitzero"`
}

func (CreateActor) kind() kind { return kindCreateActor }

func (c CreateActor) bounds() error {
	return checkBounds(isToken(c.Name, maxText), isToken(c.ID, maxText), c.Token == "" || isHash(c.Token), IsLabels(c.Labels))
}

func (c CreateActor) apply(t tables, m moment) any {
	if have := t.actor(c.Name); have != nil && !have.Ended() {
		return CreateActorOutcome{Result: ActorExists, Actor: have.clone()}
	}
	if c.Token != "" && t.actorByToken(c.Token) != nil {
		return CreateActorOutcome{Result: ActorTokenTaken}
	}
	a := &Actor{Name: c.Name, ID: c.ID, Operator: c.Operator, Labels: maps.Clone(c.Labels), CreatedAt: m.at}
	if c.Token != "" {
		a.Tokens = []TokenHash{c.Token}
	}
	t.put(tableActors, a)
	for _, token := range t.joinTokens() {
		if token.Owner == c.Name { // that is, of whoever bore the name before
			t.withdraw(token, m)
		}
	}
	return CreateActorOutcome{Result: ActorCreated, Actor: a.clone()}
}

// AddActorToken gives an actor one more bearer token.
type AddActorToken struct {
	Proposal `json:"-"`
	Name     string    `json:"name"`
	Token    TokenHash `json:"token"`
}

// RevokeActorToken takes a bearer token from an actor.
type RevokeActorToken struct {
	Proposal `json:"-"`
	Name     string    `json:"name"`
	Token    TokenHash `json:"token"`
}

// TokenResult says what became of an AddActorToken or RevokeActorToken.
type TokenResult string

const (
	// TokenAdded: the token is the actor's, now or since before.
	TokenAdded TokenResult = "added"
	// TokenRevoked: the token is the actor's no more.
	TokenRevoked TokenResult = "revoked"
	// TokenTaken: the token is another actor's.
	TokenTaken TokenResult = "taken"
	// TokenLimit: the actor has MaxTokens already.
	TokenLimit TokenResult = "limit"
	// TokenNotFound: the actor has no such token.
	TokenNotFound TokenResult = "not_found"
	// TokenNoActor: the actor is unknown or over.
	TokenNoActor TokenResult = "no_actor"
)

// TokenOutcome answers AddActorToken and RevokeActorToken.
type TokenOutcome struct {
	Result TokenResult `json:"result"`
}

func (AddActorToken) kind() kind { return kindAddActorToken }

func (c AddActorToken) bounds() error { return checkBounds(isToken(c.Name, maxText), isHash(c.Token)) }

func (c AddActorToken) apply(t tables, _ moment) any {
	a := t.actor(c.Name)
	if a == nil || a.Ended() {
		return TokenOutcome{TokenNoActor}
	}
	if holder := t.actorByToken(c.Token); holder != nil {
		if holder.Name == c.Name {
			return TokenOutcome{TokenAdded}
		}
		return TokenOutcome{TokenTaken}
	}
	if len(a.Tokens) >= MaxTokens {
		return TokenOutcome{TokenLimit}
	}
	more := a.clone()
	more.Tokens = append(more.Tokens, c.Token)
	slices.Sort(more.Tokens)
	t.put(tableActors, &more)
	return TokenOutcome{TokenAdded}
}

func (RevokeActorToken) kind() kind { return kindRevokeActorToken }

func (c RevokeActorToken) bounds() error {
	return checkBounds(isToken(c.Name, maxText), isHash(c.Token))
}

func (c RevokeActorToken) apply(t tables, _ moment) any {
	a := t.actor(c.Name)
	if a == nil || a.Ended() {
		return TokenOutcome{TokenNoActor}
	}
	at, found := slices.BinarySearch(a.Tokens, c.Token)
	if !found {
		return TokenOutcome{TokenNotFound}
	}
	fewer := a.clone()
	fewer.Tokens = slices.Delete(fewer.Tokens, at, at+1)
	t.put(tableActors, &fewer)
	return TokenOutcome{TokenRevoked}
}

// EndActor ends an actor: its sessions are closed, its tokens lead nowhere, its
// idempotency keys, its servers of primitives and its machines are forgotten.
type EndActor struct {
	Proposal `json:"-"`
	Name     string `json:"name"`
}

// EndActorResult says what became of an EndActor.
type EndActorResult string

const (
	// ActorEnded: the actor is over, by this command.
	ActorEnded EndActorResult = "ended"
	// ActorAlreadyEnded: it was over before.
	ActorAlreadyEnded EndActorResult = "already_ended"
	// ActorNotFound: there was never such an actor.
	ActorNotFound EndActorResult = "not_found"
)

// EndActorOutcome answers EndActor. Closed lists the sessions it closed, as they
// were last.
type EndActorOutcome struct {
	Result EndActorResult `json:"result"`
	Closed []Session      `json:"closed,omitempty"`
}

func (EndActor) kind() kind { return kindEndActor }

func (c EndActor) bounds() error { return checkBounds(isToken(c.Name, maxText)) }

func (c EndActor) apply(t tables, m moment) any {
	a := t.actor(c.Name)
	switch {
	case a == nil:
		return EndActorOutcome{Result: ActorNotFound}
	case a.Ended():
		return EndActorOutcome{Result: ActorAlreadyEnded}
	}
	out := EndActorOutcome{Result: ActorEnded}
	for _, s := range t.sessionsOf(c.Name) {
		t.remove(tableSessions, s)
		closed := *s
		closed.State = SessionClosed
		out.Closed = append(out.Closed, closed)
	}
	for _, k := range t.reservedBy(c.Name) {
		t.remove(tableKeys, k)
	}
	for _, s := range t.serversOf(c.Name) {
		t.remove(tableServers, s)
	}
	for _, machine := range t.machinesOf(c.Name) {
		t.remove(tableMachines, machine)
	}
	ended := *a
	ended.EndedAt, ended.Tokens = m.at, nil
	t.put(tableActors, &ended)
	return out
}

func (a Actor) clone() Actor {
	a.Tokens, a.Labels = slices.Clone(a.Tokens), maps.Clone(a.Labels)
	return a
}
