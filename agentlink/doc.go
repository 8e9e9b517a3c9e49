// Package agentlink connects machines that are no nodes with the mesh: a person's own
// laptop, or the machine that is kept for an agent.
//
// An [Agent] runs on the machine. It dials any node, asks its owner for consent, runs
// stateless programs and keeps each result until the mesh has it. A [Hub] is in every
// node: it holds the connections of machines that dialled this node, and the flights of
// the calls whose records this node holds.
//
//	home node                        node with the connection           machine
//	Hub.Execute ── machines/offer ──► Hub ── link/attach ──► Agent
//	flight      ◄─ machines/relay ─── Hub ◄── link/call ──── work ──► Runner
//
// A call is known by its id at both ends. The machine starts it once, however often it
// is offered; its link may break and come back through another node meanwhile.
package agentlink
