// Package chaos breaks a mesh of its own on purpose, and judges what its callers saw.
//
// A run starts nodes as real processes on loopback, lets clients call through all of
// them, and meanwhile kills, stops, restarts and cuts off nodes by a schedule that a seed
// draws. Everything that was called, answered and broken goes into a history, a file of
// JSON lines. Judge finds in a history, fresh or old, every promise that was broken, and
// how long things took. Neither ever touches a mesh that the run did not start.
//
// The promises about lost state are those of placement/history; this package adds what
// only a caller at a door can see.
package chaos
