// Package registry holds the state that all nodes of a mesh agree on: the nodes, which node
// owns which session under which epoch, session names, actors, join tokens, trusted roots,
// environments, functions, primitive servers and linked machines.
//
// The state is a deterministic state machine fed by a log that raft replicates. It alone
// enforces the rules: one owner per session, epochs only grow, a name belongs to one
// session, an actor's sessions are limited, an owner of an older epoch can change nothing.
// So no bug in the code above it can break them. Every command has a typed outcome. Reads
// use an immutable snapshot and never wait for writes.
//
// Every node of a mesh runs a Registry, and an odd number of them vote. Commands and
// linearizable reads work on any node and find the leader by themselves. Each node holds a
// lease, renewed with the leader outside the log, and serves only while it is valid. Every
// registration of a node begins a new incarnation of it (in identifiers also: life); a lease
// and every grant belong to one incarnation.
//
// A call whose session is cached at its owner does not use this package. See DESIGN.md for
// the promises, the transitions and the failure table.
package registry
