// Package oneshot runs stateless programs on a linked machine: Python with everything that
// a stateless call on a node has, and the machine's own shells.
//
// It is portable. How a program and all its descendants are killed depends on the system,
// and is in the files named for the system. DESIGN.md says what each of them guarantees.
package oneshot
