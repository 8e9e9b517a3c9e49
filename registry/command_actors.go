package registry

import (
	"maps"
	"slices"
)

// CreateActor creates an actor. The name of an ended actor may be used again, by an actor
// with another id.
type CreateActor struct {
	Proposal `json:"-"`
	Name     string `json:"name"`
	// ID distinguishes the actor from others that had or will have its name.
	ID string `json:"id"`
	// Token is the hash of its first bearer token; empty for none.
	Token TokenHash `json:"token,omitempty"`
	// Operator lets the actor administer the mesh.
	Operator bool `json:"operator,omitempty"`
	// Labels must be on a node for the actor's code to be placed there.
	Labels map[string]string `json:"labels,omitempty"`
}

// CreateActorResult is the result of a CreateActor.
type CreateActorResult string

const (
	// ActorCreated: the actor was created. Actor is its record.
	ActorCreated CreateActorResult = "created"
	// ActorExists: an actor that has not ended has the name. Actor is its record.
	ActorExists CreateActorResult = "exists"
	// ActorTokenTaken: the token belongs to another actor. Nothing was created.
	ActorTokenTaken CreateActorResult = "token_taken"
	// ActorLimit: there are MaxActors that have not ended. Nothing was created.
	ActorLimit CreateActorResult = "limit"
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
	if live, _, _ := t.countActors(); live >= MaxActors && meshLevel(t) >= levelBounded {
		return CreateActorOutcome{Result: ActorLimit}
	}
	a := &Actor{Name: c.Name, ID: c.ID, Operator: c.Operator, Labels: maps.Clone(c.Labels), CreatedAt: m.at}
	if c.Token != "" {
		a.Tokens = []TokenHash{c.Token}
	}
	t.put(tableActors, a)
	for _, token := range t.joinTokens() {
		if token.Owner == c.Name { // of an earlier actor of the same name
			t.withdraw(token, m)
		}
	}
	return CreateActorOutcome{Result: ActorCreated, Actor: a.clone()}
}

// AddActorToken adds a bearer token to an actor.
type AddActorToken struct {
	Proposal `json:"-"`
	Name     string    `json:"name"`
	Token    TokenHash `json:"token"`
}

// RevokeActorToken revokes a bearer token of an actor.
type RevokeActorToken struct {
	Proposal `json:"-"`
	Name     string    `json:"name"`
	Token    TokenHash `json:"token"`
}

// TokenResult is the result of an AddActorToken or RevokeActorToken.
type TokenResult string

const (
	// TokenAdded: the actor has the token, from now on or already before.
	TokenAdded TokenResult = "added"
	// TokenRevoked: the actor no longer has the token.
	TokenRevoked TokenResult = "revoked"
	// TokenTaken: the token belongs to another actor.
	TokenTaken TokenResult = "taken"
	// TokenLimit: the actor has MaxTokens already.
	TokenLimit TokenResult = "limit"
	// TokenNotFound: the actor has no such token.
	TokenNotFound TokenResult = "not_found"
	// TokenNoActor: the actor does not exist or has ended.
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

// EndActor ends an actor: its sessions are closed, its tokens revoked, and its idempotency
// keys, primitive servers and machines removed. The records of the MaxEndedActors that ended
// last are kept.
type EndActor struct {
	Proposal `json:"-"`
	Name     string `json:"name"`
}

// EndActorResult is the result of an EndActor.
type EndActorResult string

const (
	// ActorEnded: the actor was ended by this command.
	ActorEnded EndActorResult = "ended"
	// ActorAlreadyEnded: it had ended before.
	ActorAlreadyEnded EndActorResult = "already_ended"
	// ActorNotFound: there was never such an actor, or its record is no longer kept.
	ActorNotFound EndActorResult = "not_found"
)

// EndActorOutcome answers EndActor. Closed lists the last records of the sessions that it
// closed.
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
	t.forgetActor()
	t.put(tableActors, &ended)
	return out
}

// countActors counts the actors, and returns the one that ended first; nil if none has.
func (t tables) countActors() (live, ended int, first *Actor) {
	rows := t.rows(tableActors, indexID)
	for raw := rows.Next(); raw != nil; raw = rows.Next() {
		switch a := raw.(*Actor); {
		case !a.Ended():
			live++
		case first == nil || a.EndedAt < first.EndedAt:
			ended, first = ended+1, a
		default:
			ended++
		}
	}
	return live, ended, first
}

// forgetActor makes room for the record of one more ended actor. Nothing refers to the record
// of an ended actor: everything of it is gone, and CreateActor withdraws the join tokens of
// its name.
func (t tables) forgetActor() {
	if _, ended, first := t.countActors(); ended >= MaxEndedActors && meshLevel(t) >= levelBounded {
		t.remove(tableActors, first)
	}
}

func (a Actor) clone() Actor {
	a.Tokens, a.Labels = slices.Clone(a.Tokens), maps.Clone(a.Labels)
	return a
}
