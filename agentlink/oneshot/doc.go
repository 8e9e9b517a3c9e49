// Package oneshot runs stateless programs on a linked machine: Python with all that a
// stateless call on a node has, and the machine's own shells as they are.
//
// It is portable. What a system can do to end a program with everything that it has
// started is in the files named for the system; DESIGN.md says what each of them promises.
package oneshot
