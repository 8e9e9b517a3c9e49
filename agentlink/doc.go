// Package agentlink connects machines that are not nodes to the mesh: a person's own
// laptop, or a machine that is kept for an agent.
//
// An [Agent] runs on the machine. It dials any node, asks the machine's owner for consent,
// runs stateless programs, and keeps each result until the mesh has it. Every node has a
// [Hub]. It holds the connections of the machines that dialled this node, and runs the
// calls on machines whose records this node holds; this node is the home of these calls.
//
//	home node                        node with the connection           machine
//	Hub.Execute ── machines/offer ──► Hub ── link/attach ──► Agent
//	hubCall     ◄─ machines/relay ─── Hub ◄── link/call ──── job ──► Runner
//
// A call has the same id at both ends. The machine starts it at most once, however often
// it is offered. Its connection may break meanwhile, and come back through another node.
package agentlink
