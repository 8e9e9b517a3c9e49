// Package agentlink is the home of linked machines: the agent that runs on one and
// the hub that holds its connection. Until the mesh has more than one node it
// holds no code.
package agentlink
