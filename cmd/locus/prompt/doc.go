// Package prompt reads programs from users and scripts, one cell at a time. It decides
// whether the input is a complete statement, in Python and the shells, without running it.
//
// Line editing and history are by github.com/reeflective/readline: it edits cells of
// several lines as one text, asks a callback whether a cell is complete, honours the user's
// inputrc, and is maintained.
package prompt
