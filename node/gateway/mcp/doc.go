// Package mcp serves the tools of a node by the Model Context Protocol: over
// streamable HTTP (HTTP) and over a pair of pipes (Serve). Both lead to one set of
// handlers, which know a node only as the interface Node. No rule about executions
// lives here: arguments go to the node as they came, and what comes back is put
// into the protocol's form.
package mcp
