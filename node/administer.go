package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/member"
	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

// Bounds on join tokens.
const (
	defaultTokenLife = 15 * time.Minute
	maxTokenLife     = 24 * time.Hour
)

// CreateToken makes a join token.
func (n *Node) CreateToken(ctx context.Context, who gateway.Caller, want gateway.NewToken) (gateway.TokenInfo, error) {
	if err := requireOperator(who); err != nil {
		return gateway.TokenInfo{}, err
	}
	life := time.Duration(want.TTLS * float64(time.Second))
	if want.TTLS == 0 {
		life = defaultTokenLife
	}
	uses := max(want.Uses, 1)
	switch {
	case want.Role != string(certs.RoleNode) && want.Role != string(certs.RoleLink) && want.Role != string(certs.RoleVM):
		return gateway.TokenInfo{}, &surfaces.Refusal{
			Code: surfaces.CodeInvalidArgument, Message: fmt.Sprintf("there are no join tokens of role %.40q", want.Role),
			Suggestion: "Set role to node, link or vm; a token for an agent is made with an actor.",
		}
	case life <= 0 || life > maxTokenLife:
		return gateway.TokenInfo{}, &surfaces.Refusal{
			Code: surfaces.CodeInvalidArgument, Message: fmt.Sprintf("ttl_s = %g is no life for a token", want.TTLS),
			Suggestion: fmt.Sprintf("Set ttl_s to more than 0 and at most %g.", maxTokenLife.Seconds()),
		}
	case want.Uses < 0 || uses > registry.MaxTokenUses:
		return gateway.TokenInfo{}, &surfaces.Refusal{
			Code: surfaces.CodeInvalidArgument, Message: fmt.Sprintf("uses = %d is out of bounds", want.Uses),
			Suggestion: fmt.Sprintf("Set uses to 1 to %d.", registry.MaxTokenUses),
		}
	}
	if err := checkLabels(want.Labels); err != nil {
		return gateway.TokenInfo{}, err
	}
	if err := n.checkOwner(ctx, who, &want); err != nil {
		return gateway.TokenInfo{}, err
	}
	token, record, err := n.member.NewToken(ctx, member.NewToken{
		Role: certs.Role(want.Role), Lifetime: life, Uses: uses, Labels: want.Labels, Owner: want.Owner, Issuer: who.Actor,
	})
	if err != nil {
		return gateway.TokenInfo{}, n.fault(err)
	}
	info := tokenInfo(record)
	info.Token = token.String()
	return info, nil
}

// checkOwner checks the fields that depend on the role. A machine token has an owner, by
// default the caller, and no labels; a node token has no owner.
func (n *Node) checkOwner(ctx context.Context, who gateway.Caller, want *gateway.NewToken) error {
	if want.Role == string(certs.RoleNode) {
		if want.Owner != "" {
			return invalidArgument("Drop owner, or set role to link or vm.", "owner = %.80q was given for a node, which belongs to nobody", want.Owner)
		}
		return nil
	}
	if len(want.Labels) > 0 {
		return invalidArgument("Drop labels, or set role to node.", "labels were given for a machine, and only nodes have any")
	}
	want.Owner = cmp.Or(want.Owner, who.Actor)
	if a, ok := lookup(ctx, n, registry.View.Actor, want.Owner); !ok || a.Ended() {
		return notFound("actor", want.Owner)
	}
	return nil
}

func tokenInfo(t registry.JoinToken) gateway.TokenInfo {
	info := gateway.TokenInfo{
		ID: t.ID, Role: t.Role, Labels: t.Labels, Owner: t.Owner, Issuer: t.Issuer, CreatedAt: t.CreatedAt.Time(), ExpiresAt: t.NotAfter.Time(),
		UsesLeft: t.MaxUses - len(t.Uses), Used: []string{},
	}
	for _, u := range t.Uses {
		info.Used = append(info.Used, string(u.Node))
	}
	if t.RevokedAt != 0 {
		at := t.RevokedAt.Time()
		info.RevokedAt = &at
	}
	return info
}

// Tokens lists the join tokens.
func (n *Node) Tokens(_ context.Context, who gateway.Caller) ([]gateway.TokenInfo, error) {
	if err := requireOperator(who); err != nil {
		return nil, err
	}
	var list []gateway.TokenInfo
	for _, t := range n.registry.View().Tokens() {
		list = append(list, tokenInfo(t))
	}
	return list, nil
}

// RevokeToken revokes a join token.
func (n *Node) RevokeToken(ctx context.Context, who gateway.Caller, id string) (gateway.TokenInfo, error) {
	if err := requireOperator(who); err != nil {
		return gateway.TokenInfo{}, err
	}
	out, err := n.registry.RevokeToken(ctx, registry.RevokeToken{ID: id})
	switch {
	case errors.Is(err, registry.ErrMalformed) || err == nil && out.Result == registry.TokenUnknown:
		return gateway.TokenInfo{}, notFound("join token", id)
	case err != nil:
		return gateway.TokenInfo{}, n.fault(err)
	}
	return tokenInfo(out.Token), nil
}

// listCommands gives the command that lists the things of each kind.
var listCommands = map[string]string{
	"actor": "locus token list", "join token": "locus token list", "node": "locus nodes", "function": "locus fn list",
	"machine": "locus machines", "server": "locus primitives list",
}

// notFound is the refusal for a name that does not exist.
func notFound(what, id string) *surfaces.Refusal {
	return &surfaces.Refusal{
		Code: surfaces.CodeInvalidArgument, HTTP: 404, Message: fmt.Sprintf("there is no %s %.80q", what, id),
		Suggestion: "Name one that " + listCommands[what] + " lists.",
	}
}

// DrainNode sets whether a node takes new sessions.
func (n *Node) DrainNode(ctx context.Context, who gateway.Caller, id string, draining bool) (gateway.NodeInfo, error) {
	if err := requireOperator(who); err != nil {
		return gateway.NodeInfo{}, err
	}
	out, err := n.registry.DrainNode(ctx, registry.DrainNode{ID: registry.NodeID(id), Draining: draining})
	return n.nodeOutcome(ctx, id, out, err)
}

// LabelNode sets the labels of a node.
func (n *Node) LabelNode(ctx context.Context, who gateway.Caller, id string, labels map[string]string) (gateway.NodeInfo, error) {
	if err := requireOperator(who); err != nil {
		return gateway.NodeInfo{}, err
	}
	if err := checkLabels(labels); err != nil {
		return gateway.NodeInfo{}, err
	}
	out, err := n.registry.LabelNode(ctx, registry.LabelNode{ID: registry.NodeID(id), Labels: labels})
	return n.nodeOutcome(ctx, id, out, err)
}

// checkLabels refuses labels that are too many or too long for the registry.
func checkLabels(labels map[string]string) error {
	if registry.IsLabels(labels) {
		return nil
	}
	return invalidArgument(fmt.Sprintf("Set labels to at most %d, with names of 1 to %d bytes and values of at most as many, without NUL.", registry.MaxLabels, registry.MaxLabel),
		"the %d labels cannot be kept", len(labels))
}

func (n *Node) nodeOutcome(ctx context.Context, id string, out registry.NodeOutcome, err error) (gateway.NodeInfo, error) {
	switch {
	case errors.Is(err, registry.ErrMalformed) || err == nil && out.Result == registry.NodeUnknown:
		return gateway.NodeInfo{}, notFound("node", id)
	case err != nil:
		return gateway.NodeInfo{}, n.fault(err)
	}
	for _, info := range n.Nodes(ctx) {
		if info.ID == id {
			return info, nil
		}
	}
	return gateway.NodeInfo{ID: id, Addr: out.Node.Addr, State: string(out.Node.State), Labels: out.Node.Labels}, nil
}

// RemoveNode removes an expired node from the mesh for good: it loses its vote, and its
// certificate is revoked.
func (n *Node) RemoveNode(ctx context.Context, who gateway.Caller, id string) (gateway.NodeInfo, error) {
	if err := requireOperator(who); err != nil {
		return gateway.NodeInfo{}, err
	}
	node, ok := n.registry.View().Node(registry.NodeID(id))
	switch {
	case !ok:
		return gateway.NodeInfo{}, notFound("node", id)
	case node.State != registry.NodeExpired:
		return gateway.NodeInfo{}, &surfaces.Refusal{
			Code: surfaces.CodeInvalidArgument, Message: fmt.Sprintf("node %q is %s and may still serve", id, node.State),
			Suggestion: "Drain the node, shut it down, and remove it when it is expired.",
		}
	}
	if err := n.registry.RemoveMember(ctx, node.ID); err != nil {
		return gateway.NodeInfo{}, n.fault(err)
	}
	identity := certs.Identity{Cluster: n.member.Cluster(), Role: certs.RoleNode, ID: id}
	_, err := n.registry.RevokeIdentity(ctx, registry.RevokeIdentity{
		URI: identity.String(), Until: registry.At(time.Now().Add(2 * certs.DefaultLifetime)),
	})
	if err != nil {
		return gateway.NodeInfo{}, n.fault(err)
	}
	out, err := n.registry.RemoveNode(ctx, registry.RemoveNode{ID: node.ID})
	return n.nodeOutcome(ctx, id, out, err)
}

// Authority returns the state of the mesh's certificate authority.
func (n *Node) Authority(ctx context.Context, who gateway.Caller) (gateway.AuthorityInfo, error) {
	if err := requireOperator(who); err != nil {
		return gateway.AuthorityInfo{}, err
	}
	at, err := n.member.Authority(ctx)
	if err != nil {
		return gateway.AuthorityInfo{}, n.fault(err)
	}
	return authorityInfo(at), nil
}

func authorityInfo(at member.AuthorityState) gateway.AuthorityInfo {
	info := gateway.AuthorityInfo{Phase: string(at.Phase), Roots: []string{}, Holders: at.Holders, Waiting: at.Waiting}
	for _, pin := range at.Pins {
		info.Roots = append(info.Roots, string(pin))
	}
	return info
}

// RotateAuthority takes one step of a rotation of the authority's root.
func (n *Node) RotateAuthority(ctx context.Context, who gateway.Caller, step string) (gateway.AuthorityInfo, error) {
	if err := requireOperator(who); err != nil {
		return gateway.AuthorityInfo{}, err
	}
	at, err := n.member.Rotate(ctx, member.Step(step))
	var waiting *certs.NotReadyError
	switch {
	case errors.As(err, &waiting):
		return gateway.AuthorityInfo{}, &surfaces.Refusal{
			Code: surfaces.CodeInvalidArgument, Message: fmt.Sprintf("the step would cut off %s that did not follow the last one yet", surfaces.Count(len(waiting.Waiting), "node", "nodes")),
			Suggestion: "Wait a moment and try again, or remove nodes that are gone; locus authority lists them.", RetryAfterS: 5,
		}
	case errors.Is(err, certs.ErrBadPhase), errors.Is(err, member.ErrBadStep):
		return gateway.AuthorityInfo{}, &surfaces.Refusal{
			Code: surfaces.CodeInvalidArgument, Message: err.Error(), Suggestion: "Set step to begin, advance or rollback, as the phase allows.",
		}
	case err != nil:
		return gateway.AuthorityInfo{}, n.fault(err)
	}
	return authorityInfo(at), nil
}
