// Package top shows in a terminal what a mesh does now: its nodes, and of whoever asks the
// sessions, the calls that run and the machines. A Snapshot is what was asked for at once, a
// frame is how it looks in lines, and Run keeps a frame on the screen, anew with what
// happens, and steers calls by keys.
package top
