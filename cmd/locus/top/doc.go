// Package top shows the present state of a mesh in a terminal: its nodes, and the user's
// sessions, running calls and machines. A Snapshot is one reading, a frame its rendering in
// lines. Run keeps a frame on the screen, refreshes it on events, and steers calls by keys.
package top
