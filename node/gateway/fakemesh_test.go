package gateway

import (
	"context"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// The operators' part of the fake: one node n1, one token t1, and an authority
// whose phase is the last step taken.

func operators(who Caller) error {
	if who.Operator {
		return nil
	}
	return &surfaces.Refusal{Code: surfaces.CodeForbidden, Message: "only operators administer"}
}

func (f *fake) oneNode(who Caller, id string, change func(*NodeInfo)) (NodeInfo, error) {
	if err := operators(who); err != nil {
		return NodeInfo{}, err
	}
	if id != "n1" {
		return NodeInfo{}, &surfaces.Refusal{Code: surfaces.CodeInvalidArgument, Message: "there is no such node", HTTP: 404}
	}
	n := NodeInfo{ID: id, State: "alive", Sessions: 2}
	change(&n)
	return n, nil
}

func (f *fake) DrainNode(_ context.Context, who Caller, id string, draining bool) (NodeInfo, error) {
	return f.oneNode(who, id, func(n *NodeInfo) { n.Draining = draining })
}

func (f *fake) LabelNode(_ context.Context, who Caller, id string, labels map[string]string) (NodeInfo, error) {
	return f.oneNode(who, id, func(n *NodeInfo) { n.Labels = labels })
}

func (f *fake) RemoveNode(_ context.Context, who Caller, id string) (NodeInfo, error) {
	return f.oneNode(who, id, func(n *NodeInfo) { n.State = "removed" })
}

func (f *fake) CreateToken(_ context.Context, who Caller, want NewToken) (TokenInfo, error) {
	if err := operators(who); err != nil {
		return TokenInfo{}, err
	}
	return TokenInfo{ID: "t1", Token: "secret", Role: want.Role, Labels: want.Labels, UsesLeft: want.Uses,
		ExpiresAt: time.Unix(0, 0).Add(time.Duration(want.TTLS * float64(time.Second)))}, nil
}

func (f *fake) Tokens(_ context.Context, who Caller) ([]TokenInfo, error) { return nil, operators(who) }

func (f *fake) RevokeToken(_ context.Context, who Caller, id string) (TokenInfo, error) {
	if err := operators(who); err != nil {
		return TokenInfo{}, err
	}
	if id != "t1" {
		return TokenInfo{}, &surfaces.Refusal{Code: surfaces.CodeInvalidArgument, Message: "there is no such token", HTTP: 404}
	}
	now := time.Now()
	return TokenInfo{ID: id, RevokedAt: &now}, nil
}

func (f *fake) Authority(_ context.Context, who Caller) (AuthorityInfo, error) {
	return AuthorityInfo{Phase: "stable", Roots: []string{"pin"}}, operators(who)
}

func (f *fake) RotateAuthority(_ context.Context, who Caller, step string) (AuthorityInfo, error) {
	return AuthorityInfo{Phase: step}, operators(who)
}

func (f *fake) Machines(_ context.Context, who Caller, actor string) ([]MachineInfo, error) {
	if actor != "" && actor != who.Actor && !who.Operator {
		return nil, &surfaces.Refusal{Code: surfaces.CodeForbidden, Message: "only operators look at others"}
	}
	return []MachineInfo{fakeMachine(who.Actor)}, nil
}

func (f *fake) UnlinkMachine(_ context.Context, who Caller, name string) (MachineInfo, error) {
	if name != "laptop" {
		return MachineInfo{}, &surfaces.Refusal{Code: surfaces.CodeInvalidArgument, Message: "there is no such machine", HTTP: 404}
	}
	m := fakeMachine(who.Actor)
	m.State = MachineUnlinked
	return m, nil
}

func fakeMachine(actor string) MachineInfo {
	return MachineInfo{
		ID: "link-1", Name: "laptop", Actor: actor, Surface: surfaces.UserMachine, State: MachineConnected, Node: "n1", OS: "linux", Arch: "arm64",
		Languages: []string{"python"}, Consent: "asks each time",
	}
}
