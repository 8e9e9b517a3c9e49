// Package mcp serves a node's tools over the Model Context Protocol: by streamable HTTP
// (HTTP) and over a pair of pipes (Serve). Both use the same handlers, which know a node
// only as the interface Node. The package has no rules about executions: arguments go to
// the node as they are, and results are only converted to the protocol.
package mcp
