// Package client is the Go client of a node's HTTP door. It speaks of executions,
// sessions, actors and nodes in the types of the gateway and of surfaces, finds
// the node of this machine by itself, and follows a running call across broken
// connections: it comes back by the call's id and the last output byte that it
// has seen, and tells each event once.
//
// What went wrong is told by the type of the error, never by its text:
// Unreachable when nothing is there, Refused when the node said no, Broken when a
// call was lost from sight, Unanswered when a request was, Misanswered when
// whatever answers is no node.
package client
