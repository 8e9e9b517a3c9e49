// Package client is the Go client of a node's HTTP API, with the types of packages gateway
// and surfaces. It finds a local node by itself. It follows a running call across broken
// connections: it reconnects with the call's id and the last output offset, and emits each
// event once.
//
// Errors have types; their text is for users only. UnreachableError: nothing answers.
// RefusedError: the node refused. ConnectionLostError: the connection to a call was lost.
// NoAnswerError: that to another request was lost. ProtocolError: what answers is not a node.
package client
