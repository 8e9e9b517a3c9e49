package registry

import "context"

// RegisterNode begins a new incarnation of this node; see the command.
func (r *Registry) RegisterNode(ctx context.Context, c RegisterNode) (RegisterOutcome, error) {
	if r.machine.knows > 1 { // level 1 is the default, and left out as before the field existed
		c.Level = r.machine.knows
	}
	return propose[RegisterOutcome](ctx, r, c)
}

// ClaimSession creates a session or takes over a lost one.
func (r *Registry) ClaimSession(ctx context.Context, c ClaimSession) (ClaimOutcome, error) {
	return propose[ClaimOutcome](ctx, r, c)
}

// MarkLost records that a session's state is gone.
func (r *Registry) MarkLost(ctx context.Context, c MarkLost) (MarkLostOutcome, error) {
	return propose[MarkLostOutcome](ctx, r, c)
}

// RebuildSession makes a lost session live again, with empty state and a new epoch.
func (r *Registry) RebuildSession(ctx context.Context, c RebuildSession) (RebuildOutcome, error) {
	return propose[RebuildOutcome](ctx, r, c)
}

// AckLoss asks whether the answer that is about to be sent must report a loss.
func (r *Registry) AckLoss(ctx context.Context, c AckLoss) (AckOutcome, error) {
	return propose[AckOutcome](ctx, r, c)
}

// TouchSessions records when an owner's sessions were last used. Its request id is not
// remembered, because sending it again is harmless.
func (r *Registry) TouchSessions(ctx context.Context, c TouchSessions) (TouchOutcome, error) {
	return propose[TouchOutcome](ctx, r, c)
}

// CloseSession closes a session.
func (r *Registry) CloseSession(ctx context.Context, c CloseSession) (CloseOutcome, error) {
	return propose[CloseOutcome](ctx, r, c)
}

// RenameSession changes or removes the name of a session.
func (r *Registry) RenameSession(ctx context.Context, c RenameSession) (RenameOutcome, error) {
	return propose[RenameOutcome](ctx, r, c)
}

// CreateActor creates an actor.
func (r *Registry) CreateActor(ctx context.Context, c CreateActor) (CreateActorOutcome, error) {
	return propose[CreateActorOutcome](ctx, r, c)
}

// AddActorToken adds a bearer token to an actor.
func (r *Registry) AddActorToken(ctx context.Context, c AddActorToken) (TokenOutcome, error) {
	return propose[TokenOutcome](ctx, r, c)
}

// RevokeActorToken revokes a bearer token of an actor.
func (r *Registry) RevokeActorToken(ctx context.Context, c RevokeActorToken) (TokenOutcome, error) {
	return propose[TokenOutcome](ctx, r, c)
}

// EndActor ends an actor and closes its sessions.
func (r *Registry) EndActor(ctx context.Context, c EndActor) (EndActorOutcome, error) {
	return propose[EndActorOutcome](ctx, r, c)
}

// CreateToken stores a join token.
func (r *Registry) CreateToken(ctx context.Context, c CreateToken) (CreateTokenOutcome, error) {
	return propose[CreateTokenOutcome](ctx, r, c)
}

// UseToken lets a key join with a token.
func (r *Registry) UseToken(ctx context.Context, c UseToken) (UseTokenOutcome, error) {
	return propose[UseTokenOutcome](ctx, r, c)
}

// RevokeToken revokes a join token.
func (r *Registry) RevokeToken(ctx context.Context, c RevokeToken) (RevokeTokenOutcome, error) {
	return propose[RevokeTokenOutcome](ctx, r, c)
}

// RevokeIdentity revokes an identity.
func (r *Registry) RevokeIdentity(ctx context.Context, c RevokeIdentity) (RevokeIdentityOutcome, error) {
	return propose[RevokeIdentityOutcome](ctx, r, c)
}

// SetTrust replaces the trusted roots.
func (r *Registry) SetTrust(ctx context.Context, c SetTrust) (TrustOutcome, error) {
	return propose[TrustOutcome](ctx, r, c)
}

// SetGossipKeys replaces the gossip encryption keys.
func (r *Registry) SetGossipKeys(ctx context.Context, c SetGossipKeys) (GossipKeysOutcome, error) {
	return propose[GossipKeysOutcome](ctx, r, c)
}

// DrainNode sets whether a node takes new sessions.
func (r *Registry) DrainNode(ctx context.Context, c DrainNode) (NodeOutcome, error) {
	return propose[NodeOutcome](ctx, r, c)
}

// LabelNode sets the labels of a node.
func (r *Registry) LabelNode(ctx context.Context, c LabelNode) (NodeOutcome, error) {
	return propose[NodeOutcome](ctx, r, c)
}

// RemoveNode removes a node that no longer serves.
func (r *Registry) RemoveNode(ctx context.Context, c RemoveNode) (NodeOutcome, error) {
	return propose[NodeOutcome](ctx, r, c)
}

// ReserveKey binds an idempotency key to a call.
func (r *Registry) ReserveKey(ctx context.Context, c ReserveKey) (ReserveKeyOutcome, error) {
	return propose[ReserveKeyOutcome](ctx, r, c)
}

// AddVenv stores an environment.
func (r *Registry) AddVenv(ctx context.Context, c AddVenv) (VenvOutcome, error) {
	return r.proposeVenv(ctx, c)
}

// RemoveVenv removes an environment that nothing uses.
func (r *Registry) RemoveVenv(ctx context.Context, c RemoveVenv) (VenvOutcome, error) {
	return propose[VenvOutcome](ctx, r, c)
}

// RecordBuild records that a node has built an environment. The record in the outcome has
// the lock that all nodes build by.
func (r *Registry) RecordBuild(ctx context.Context, c RecordBuild) (VenvOutcome, error) {
	return r.proposeVenv(ctx, c)
}

// DropBuild records that a node no longer has an environment.
func (r *Registry) DropBuild(ctx context.Context, c DropBuild) (VenvOutcome, error) {
	return r.proposeVenv(ctx, c)
}

func (r *Registry) proposeVenv(ctx context.Context, c command) (VenvOutcome, error) {
	out, err := propose[VenvOutcome](ctx, r, c)
	if err == nil {
		out.Venv, _ = r.View().Venv(out.ID)
	}
	return out, err
}

// PutFunction stores a function, or a new version of it.
func (r *Registry) PutFunction(ctx context.Context, c PutFunction) (FunctionOutcome, error) {
	out, err := propose[FunctionOutcome](ctx, r, c)
	if err == nil {
		out.Function, _ = r.View().Function(c.Name)
	}
	return out, err
}

// RemoveFunction removes a function.
func (r *Registry) RemoveFunction(ctx context.Context, c RemoveFunction) (FunctionOutcome, error) {
	return propose[FunctionOutcome](ctx, r, c)
}

// PutServer stores a primitive server of an actor.
func (r *Registry) PutServer(ctx context.Context, c PutServer) (ServerOutcome, error) {
	return propose[ServerOutcome](ctx, r, c)
}

// RemoveServer removes a primitive server of an actor.
func (r *Registry) RemoveServer(ctx context.Context, c RemoveServer) (ServerOutcome, error) {
	return propose[ServerOutcome](ctx, r, c)
}

// LinkMachine registers a machine that has joined with a token.
func (r *Registry) LinkMachine(ctx context.Context, c LinkMachine) (MachineOutcome, error) {
	return propose[MachineOutcome](ctx, r, c)
}

// ConnectMachine records that a node holds a machine's connection.
func (r *Registry) ConnectMachine(ctx context.Context, c ConnectMachine) (MachineOutcome, error) {
	return propose[MachineOutcome](ctx, r, c)
}

// DisconnectMachine records that a node no longer holds a machine's connection.
func (r *Registry) DisconnectMachine(ctx context.Context, c DisconnectMachine) (MachineOutcome, error) {
	return propose[MachineOutcome](ctx, r, c)
}

// UnlinkMachine removes a machine from the mesh for good.
func (r *Registry) UnlinkMachine(ctx context.Context, c UnlinkMachine) (MachineOutcome, error) {
	return propose[MachineOutcome](ctx, r, c)
}
