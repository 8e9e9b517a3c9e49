// Package prompt reads programs from people and from scripts, one cell at a time:
// it knows when what was typed is a whole statement and when more must follow, in
// Python and in the shells, without running anything.
//
// Line editing and history are those of github.com/reeflective/readline: it edits
// cells of several lines as one text, asks a callback whether the cell is whole,
// honours the user's inputrc, and is kept.
package prompt
