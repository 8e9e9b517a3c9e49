// Package client is the Go client of a node's HTTP API, with the types of packages gateway
// and surfaces. It finds a local node by itself. It follows a running call across broken
// connections: it reconnects with the call's id and the last output offset, and emits each
// event once.
//
// Errors have types; their text is for users only. Unreachable: nothing answers. Refused:
// the node refused. Broken: the connection to a call was lost. Unanswered: that to another
// request was lost. Misanswered: what answers is not a node.
package client
