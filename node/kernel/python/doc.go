// Package python makes kernels that run Python.
//
// A Family keeps one zygote, a warm interpreter that only forks. One-shots and
// sessions are forks of the zygote; a read-only copy of a session is a fork of the
// session's own process. The Python half, the worker, is embedded in the binary and
// passed to the interpreter through a descriptor. DESIGN.md describes the protocol
// between the two halves and what each guarantees.
package python
