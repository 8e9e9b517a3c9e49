// Package sandbox isolates the code of one actor from the node and from other
// actors, bounds what it uses, and says honestly what of that holds on this
// machine.
//
// A Container is a keeper process with its own namespaces, in which commands are
// started and from which nothing outlives it. A Group holds some of a container's
// processes so that they can be frozen and killed to the last one. A Process is
// one of them, with an exit that is known. Probe tells what the machine can do.
// DESIGN.md beside this file has the promises, and what they stand on.
//
// The package is for Linux.
package sandbox
