// Package sandbox isolates the code of one actor from the node and from other actors, limits
// the resources that it uses, and reports which of this the machine really enforces.
//
// A Container is a keeper process with its own namespaces, in which commands are started. No
// process outlives its container. A Group is a set of a container's processes that can be
// frozen and killed without exception. A Process is one process, whose exit is known. Probe
// tests what the machine can enforce. DESIGN.md has the guarantees and how they are achieved.
//
// The package needs Linux.
package sandbox
