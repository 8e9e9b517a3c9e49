// Package peer lets the nodes of a mesh run calls for one another. The node that a caller
// talks to is the call's home: it keeps the call's record. The node that owns the session
// runs the code. For each attempt the home opens a stream to that node, which carries output
// and events as they come, and the outcome at the end.
//
// A broken stream loses nothing: the owner continues the attempt, keeps what was not
// received yet, and streams it when the home asks again with the same call id and attempt
// number. An attempt is started at most once for its call id, number and epoch.
package peer
