// Package mesh is the transport between the nodes of one cluster: calls, byte streams
// for the registry, gossip, and enrolment of new members. All of it shares one UDP port
// per node. The package authenticates peers by their certificates; it knows nothing of
// what a call means, which is up to the handlers that are registered.
//
// A node dials each peer that it calls twice: one connection for control traffic and one
// for data. A connection carries only calls of the side that dialled it. Each call is a
// QUIC stream of its own, so a slow call does not block others.
package mesh
