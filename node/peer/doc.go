// Package peer is how the nodes of a mesh run calls for one another. The node
// that a caller talks to keeps the call's record; the node that owns the session
// runs the code. Between them goes one stream an attempt: what the code says, as
// it says it, and the outcome last.
//
// A link that breaks loses nothing: the owner goes on, holds what was not fetched
// yet, and gives the outcome to whoever asks with the same call id and attempt.
// Nothing is ever started twice for one call id and attempt number.
package peer
