// Package registry holds what the whole mesh agrees on: nodes and their lives,
// who owns which session and under which epoch, session names, actors, join tokens
// and whom the mesh trusts.
//
// The truth is a deterministic state machine fed by a replicated log. It alone
// enforces the rules (one owner per key, epochs only grow, a name leads to one
// key, the limit of sessions, an owner of an older epoch can change nothing), so
// that no bug above it can break them. Every command answers with a typed
// outcome. Reads come from an immutable snapshot and never wait for writes.
//
// Every node of a mesh has one; an odd few of them vote. Commands and fresh reads
// work on any node and find the leader by themselves. Each node holds a lease of
// its life, renewed with the leader beside the log, and serves only while it is
// valid.
//
// Nothing here is on the way of a call whose session is cached at its owner.
// See DESIGN.md for the promises, the transitions and the failure table.
package registry
