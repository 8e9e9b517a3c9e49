// Package mesh carries bytes between the nodes of one cluster: calls, byte streams
// for the registry, gossip, and the door by which new members come in. One UDP port
// per node serves all of it. The package knows peers and their certificates; what a
// call means is the business of the handlers given to it.
//
// Each node dials the peers it wants to talk to, twice: one connection for control
// traffic and one for data. A connection carries only calls of the node that dialled
// it. Each call is a stream of its own, so a slow call blocks no other.
package mesh
