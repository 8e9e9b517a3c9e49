// Package chaos injects faults into a mesh of its own and checks what its clients saw.
//
// A run starts nodes as processes on loopback and clients that call all of them. Meanwhile
// it kills, suspends, restarts and isolates nodes by a schedule drawn from a seed. All
// calls, answers and faults are recorded in a history, a file of JSON lines. Check checks a
// history, new or old, for violations of the mesh's promises, and measures how long things
// took. Neither touches a mesh that the run did not start.
//
// The promises about lost state are those of placement/history; this package adds those
// that only a client of the API can observe.
package chaos
