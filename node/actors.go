package node

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/google/uuid"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

// DefaultActor is the actor whose token commands on this machine find by themselves. It is
// an operator.
const DefaultActor = "default"

// actorName is the syntax of actor names. A name is also the name of the workspace
// directory.
var actorName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// defaultActor makes sure that the default actor exists and has the token in the data
// directory.
func (n *Node) defaultActor(ctx context.Context) error {
	token, _, err := readOrCreate(n.cfg.path(TokenFile), func() string { return newSecret("locus_") })
	if err != nil {
		return fmt.Errorf("node: %w", err)
	}
	hash := registry.HashToken(token)
	out, err := n.registry.CreateActor(ctx, registry.CreateActor{Name: DefaultActor, ID: uuid.NewString(), Token: hash})
	if err != nil {
		return err
	}
	if out.Result == registry.ActorCreated {
		return nil
	}
	added, err := n.registry.AddActorToken(ctx, registry.AddActorToken{Name: DefaultActor, Token: hash})
	if err != nil {
		return err
	}
	if added.Result != registry.TokenAdded {
		return fmt.Errorf("the token in %s cannot be the default actor's: %s", n.cfg.path(TokenFile), added.Result)
	}
	return nil
}

// Authenticate returns the actor that a bearer token belongs to.
func (n *Node) Authenticate(ctx context.Context, token string) (gateway.Caller, error) {
	if token == "" {
		return gateway.Caller{}, &surfaces.Refusal{
			Code: surfaces.CodeUnauthenticated, Message: "the request carries no bearer token",
			Suggestion: "Send the header Authorization: Bearer TOKEN; the default actor's token is in the file default.token of the node's data directory.",
		}
	}
	hash := registry.HashToken(token)
	actor, ok := n.registry.View().ActorByTokenHash(hash)
	if !ok && n.refresh(ctx) {
		actor, ok = n.registry.View().ActorByTokenHash(hash)
	}
	if !ok || actor.Ended() {
		return gateway.Caller{}, &surfaces.Refusal{
			Code: surfaces.CodeUnauthenticated, Message: "the bearer token belongs to no living actor",
			Suggestion: "Mint one with: locus token create --role actor --name NAME",
		}
	}
	return gateway.Caller{Actor: actor.Name, ActorID: actor.ID, Operator: actor.Operator || actor.Name == DefaultActor}, nil
}

func requireOperator(who gateway.Caller) error {
	if who.Operator {
		return nil
	}
	return &surfaces.Refusal{
		Code: surfaces.CodeForbidden, Message: fmt.Sprintf("actor %q may not administer the node", who.Actor),
		Suggestion: "Use the default actor's token.",
	}
}

// CreateActor creates an actor and its bearer token.
func (n *Node) CreateActor(ctx context.Context, who gateway.Caller, want gateway.NewActor) (gateway.ActorInfo, error) {
	name := want.Name
	if err := requireOperator(who); err != nil {
		return gateway.ActorInfo{}, err
	}
	if !actorName.MatchString(name) {
		return gateway.ActorInfo{}, &surfaces.Refusal{
			Code:       surfaces.CodeInvalidArgument,
			Message:    fmt.Sprintf("name %.80q is not a name for an actor", name),
			Suggestion: "Set name to 1 to 64 letters, digits, _, - and ., with a letter or digit first.",
		}
	}
	if err := checkLabels(want.Labels); err != nil {
		return gateway.ActorInfo{}, err
	}
	token := newSecret("locus_")
	out, err := n.registry.CreateActor(ctx, registry.CreateActor{Name: name, ID: uuid.NewString(), Operator: want.Operator, Labels: want.Labels, Token: registry.HashToken(token)})
	if err != nil {
		return gateway.ActorInfo{}, n.fault(err)
	}
	if out.Result == registry.ActorLimit {
		return gateway.ActorInfo{}, &surfaces.Refusal{
			Code: surfaces.CodeNoCapacity, Message: fmt.Sprintf("there are %d actors, and no more can be had", registry.MaxActors),
			Suggestion: "End one that is done first, with: locus token revoke NAME; locus token list lists them.",
		}
	}
	if out.Result != registry.ActorCreated {
		mend := "Set name to another one, or end that actor first with: locus token revoke " + name
		if name == DefaultActor {
			mend = "Set name to another one: the default actor is there as long as the mesh is."
		}
		return gateway.ActorInfo{}, invalidArgument(mend, "there is an actor %q already", name)
	}
	info := n.actorInfo(out.Actor)
	info.Token = token
	return info, nil
}

// Actors lists all actors.
func (n *Node) Actors(_ context.Context, who gateway.Caller) ([]gateway.ActorInfo, error) {
	if err := requireOperator(who); err != nil {
		return nil, err
	}
	var list []gateway.ActorInfo
	for _, a := range n.registry.View().Actors() {
		list = append(list, n.actorInfo(a))
	}
	return list, nil
}

// EndActor revokes an actor's tokens, stops its calls and closes its sessions.
func (n *Node) EndActor(ctx context.Context, who gateway.Caller, name string) (gateway.ActorInfo, error) {
	if err := requireOperator(who); err != nil {
		return gateway.ActorInfo{}, err
	}
	if name == DefaultActor {
		return gateway.ActorInfo{}, &surfaces.Refusal{Code: surfaces.CodeForbidden, Message: "the default actor cannot be ended",
			Suggestion: "End another one; locus token list lists them."}
	}
	out, err := n.registry.EndActor(ctx, registry.EndActor{Name: name})
	switch {
	case errors.Is(err, registry.ErrMalformed) || err == nil && out.Result == registry.ActorNotFound:
		return gateway.ActorInfo{}, notFound("actor", name)
	case err != nil:
		return gateway.ActorInfo{}, n.fault(err)
	}
	n.endActor(name) // the other nodes learn it from the registry
	actor, _ := n.registry.View().Actor(name)
	return n.actorInfo(actor), nil
}

func (n *Node) actorInfo(a registry.Actor) gateway.ActorInfo {
	info := gateway.ActorInfo{Name: a.Name, Operator: a.Operator || a.Name == DefaultActor, CreatedAt: a.CreatedAt.Time(), Sessions: len(n.registry.View().SessionsOf(a.Name))}
	if a.Ended() {
		at := a.EndedAt.Time()
		info.EndedAt = &at
	}
	return info
}
