// Package python makes kernels that run Python.
//
// A Family keeps one zygote, a warm interpreter that only forks. A program that
// is run once and a session are forks of the zygote; a read-only copy of a session
// is a fork of the session's own process. The worker, the Python half, is embedded
// and handed to the interpreter through a descriptor. DESIGN.md describes the
// protocol between the two halves and what each promises.
package python
