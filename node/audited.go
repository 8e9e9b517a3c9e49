package node

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/locusrun/locus/node/audit"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

// auditedService is the Node that the gateway serves. It adds an audit entry, with actor and
// outcome, for everything that changes something or tried to. Calls are audited where their
// records are made, because not all of them come through the gateway.
type auditedService struct{ *Node }

var _ gateway.Service = auditedService{}

// record adds an entry for an action and passes its result on.
func record[T any](a auditedService, what audit.Kind, who gateway.Caller, target string, answer T, err error, details ...string) (T, error) {
	a.note(actionEntry(what, who.Actor, target, err, details...))
	return answer, err
}

// CloseSession audits the session that was selected.
func (a auditedService) CloseSession(ctx context.Context, who gateway.Caller, body []byte) (gateway.Closed, error) {
	e := a.selected(who, surfaces.ToolClose, body)
	closed, err := a.Node.CloseSession(ctx, who, body)
	a.session(audit.SessionClosed, who, e, err, "reason", closed.Reason)
	return closed, err
}

// ResetSession audits the session that was selected.
func (a auditedService) ResetSession(ctx context.Context, who gateway.Caller, body []byte) (gateway.SessionInfo, error) {
	e := a.selected(who, surfaces.ToolReset, body)
	info, err := a.Node.ResetSession(ctx, who, body)
	a.session(audit.SessionReset, who, e, err)
	return info, err
}

// ForkSession audits the session that was selected, and the name and id of the copy.
func (a auditedService) ForkSession(ctx context.Context, who gateway.Caller, body []byte) (gateway.SessionInfo, error) {
	e := a.selected(who, surfaces.ToolFork, body)
	info, err := a.Node.ForkSession(ctx, who, body)
	name := ""
	if info.SessionName != nil {
		name = *info.SessionName
	}
	a.session(audit.SessionForked, who, e, err, "copy", name, "copy_id", number(info.SessionID))
	return info, err
}

// selected returns an entry with the session that a request currently selects; without one
// if it selects none.
func (a auditedService) selected(who gateway.Caller, tool string, body []byte) (e audit.Entry) {
	sel, refusal := surfaces.ResolveSelector(body, tool, a.view(who.Actor))
	if refusal != nil || sel.Session == nil {
		return e
	}
	key, name := sel.Session.Key, sel.Session.Name
	e.Language, e.SessionID = key.Language, &key.ID
	if name != "" {
		e.SessionName = &name
	}
	if key.Venv != 0 {
		e.VenvID = &key.Venv
	}
	return e
}

func (a auditedService) session(what audit.Kind, who gateway.Caller, at audit.Entry, err error, details ...string) {
	e := actionEntry(what, who.Actor, "", err, details...)
	e.Language, e.SessionID, e.SessionName, e.VenvID = at.Language, at.SessionID, at.SessionName, at.VenvID
	a.note(e)
}

// DrainNode audits the node and whether it drains.
func (a auditedService) DrainNode(ctx context.Context, who gateway.Caller, id string, draining bool) (gateway.NodeInfo, error) {
	info, err := a.Node.DrainNode(ctx, who, id, draining)
	word := "no"
	if draining {
		word = "yes"
	}
	return record(a, audit.NodeDrained, who, id, info, err, "draining", word)
}

// LabelNode audits the node and its labels.
func (a auditedService) LabelNode(ctx context.Context, who gateway.Caller, id string, labels map[string]string) (gateway.NodeInfo, error) {
	info, err := a.Node.LabelNode(ctx, who, id, labels)
	return record(a, audit.NodeLabelled, who, id, info, err, "labels", pairs(labels))
}

func pairs(of map[string]string) string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(of)) {
		list = append(list, k+"="+of[k])
	}
	return strings.Join(list, ",")
}

// RemoveNode audits the node.
func (a auditedService) RemoveNode(ctx context.Context, who gateway.Caller, id string) (gateway.NodeInfo, error) {
	info, err := a.Node.RemoveNode(ctx, who, id)
	return record(a, audit.NodeRemoved, who, id, info, err)
}

// CreateToken audits the join token's id, never the token.
func (a auditedService) CreateToken(ctx context.Context, who gateway.Caller, want gateway.NewToken) (gateway.TokenInfo, error) {
	info, err := a.Node.CreateToken(ctx, who, want)
	return record(a, audit.TokenCreated, who, info.ID, info, err, "role", want.Role, "owner", info.Owner, "uses", number(info.UsesLeft))
}

// RevokeToken audits the join token's id.
func (a auditedService) RevokeToken(ctx context.Context, who gateway.Caller, id string) (gateway.TokenInfo, error) {
	info, err := a.Node.RevokeToken(ctx, who, id)
	return record(a, audit.TokenRevoked, who, id, info, err, "role", info.Role)
}

// RotateAuthority audits the step.
func (a auditedService) RotateAuthority(ctx context.Context, who gateway.Caller, step string) (gateway.AuthorityInfo, error) {
	info, err := a.Node.RotateAuthority(ctx, who, step)
	return record(a, audit.AuthorityRotated, who, "", info, err, "step", step, "phase", info.Phase)
}

// CreateActor audits the actor and whether it is an operator.
func (a auditedService) CreateActor(ctx context.Context, who gateway.Caller, want gateway.NewActor) (gateway.ActorInfo, error) {
	info, err := a.Node.CreateActor(ctx, who, want)
	role := "actor"
	if want.Operator {
		role = "admin"
	}
	return record(a, audit.ActorCreated, who, want.Name, info, err, "role", role, "labels", pairs(want.Labels))
}

// EndActor audits the actor.
func (a auditedService) EndActor(ctx context.Context, who gateway.Caller, name string) (gateway.ActorInfo, error) {
	info, err := a.Node.EndActor(ctx, who, name)
	return record(a, audit.ActorEnded, who, name, info, err)
}

// UnlinkMachine audits the machine's id, or the name that was given if there is no such
// machine.
func (a auditedService) UnlinkMachine(ctx context.Context, who gateway.Caller, name string) (gateway.MachineInfo, error) {
	info, err := a.Node.UnlinkMachine(ctx, who, name)
	target := info.ID
	if target == "" {
		target = name
	}
	return record(a, audit.MachineUnlinked, who, target, info, err, "machine", info.Name, "owner", info.Actor)
}

// AddVenv audits the environment's number and the digest of its content.
func (a auditedService) AddVenv(ctx context.Context, who gateway.Caller, want gateway.NewVenv) (gateway.VenvInfo, error) {
	info, err := a.Node.AddVenv(ctx, who, want)
	return record(a, audit.VenvAdded, who, number(info.ID), info, err, "name", info.Name, "digest", info.Digest)
}

// RemoveVenv audits the environment's number.
func (a auditedService) RemoveVenv(ctx context.Context, who gateway.Caller, id int) (gateway.VenvInfo, error) {
	info, err := a.Node.RemoveVenv(ctx, who, id)
	return record(a, audit.VenvRemoved, who, number(id), info, err, "name", info.Name, "digest", info.Digest)
}

// PutFunction audits the function with its version and digest.
func (a auditedService) PutFunction(ctx context.Context, who gateway.Caller, want gateway.NewFunction) (gateway.FunctionInfo, error) {
	info, err := a.Node.PutFunction(ctx, who, want)
	name := info.Name
	if name == "" {
		name = want.Name
	}
	return record(a, audit.FunctionPut, who, name, info, err, "version", number(info.Version), "digest", info.Digest, "source_sha256", digestOf(want.Source))
}

// RemoveFunction audits the function.
func (a auditedService) RemoveFunction(ctx context.Context, who gateway.Caller, name string) (gateway.FunctionInfo, error) {
	info, err := a.Node.RemoveFunction(ctx, who, name)
	return record(a, audit.FunctionRemoved, who, name, info, err, "digest", info.Digest)
}

// PutPrimitiveServer audits the owner, but not the configuration, which may hold secrets.
func (a auditedService) PutPrimitiveServer(ctx context.Context, who gateway.Caller, want gateway.NewServer) (gateway.ServerInfo, error) {
	info, err := a.Node.PutPrimitiveServer(ctx, who, want)
	owner := want.Actor
	if owner == "" {
		owner = who.Actor
	}
	kind := "command"
	if want.URL != "" {
		kind = "url"
	}
	return record(a, audit.ServerPut, who, want.Name, info, err, "owner", owner, "kind", kind)
}

// RemovePrimitiveServer audits the owner.
func (a auditedService) RemovePrimitiveServer(ctx context.Context, who gateway.Caller, actor, name string) (gateway.ServerInfo, error) {
	info, err := a.Node.RemovePrimitiveServer(ctx, who, actor, name)
	if actor == "" {
		actor = who.Actor
	}
	return record(a, audit.ServerRemoved, who, name, info, err, "owner", actor)
}
