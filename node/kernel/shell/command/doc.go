// Package command is the command "primitives", by which code in shells calls the host's
// capabilities. A Door is the server for the command; it belongs to a family of kernels,
// or to a linked machine. A Caller is one program, on whose behalf the command acts.
//
// The command is a separate program, so it works wherever code can start one: in
// pipelines, scripts and background jobs, and through xargs. It only sends its arguments
// and input to the door and writes the answer to its output. The door interprets them.
//
// Each command makes one connection to the socket "door" in the door's directory. It sends
// a sequence of parts, each a length of 4 bytes, big-endian, and that many bytes: the
// caller's name; the arguments, each followed by a NUL; the standard input, in any number
// of parts, if one of the arguments is "-"; and an empty part. The answer is a byte with
// the exit status and two parts, for standard output and standard error.
package command
