// Package mesh is the home of what carries bytes between nodes: gossip, QUIC
// connections and the calls on top of them. It knows peers, not sessions. A mesh
// of one node needs none of it yet, so the package holds no code.
package mesh
