// Package command is the command "primitives" of shells, by which code calls the
// host's capabilities. A Door belongs to a family of kernels, or to a linked
// machine, and is where the command knocks; a Caller is one program, and what lets
// the command act for it.
//
// The command is a program of its own, so that it works wherever code can start
// one: in pipelines, scripts and background jobs, and through xargs. It only
// carries: its arguments and input to the door, the answer to its output. All that
// they mean is decided here, at the door.
//
// A conversation is one connection to the socket "door" in the door's directory.
// What is sent is a sequence of parts, each a length of 4 bytes, most significant
// first, and that many bytes: the caller's name, the arguments with a NUL behind
// each, the standard input in as many parts as it takes if one of the arguments is
// "-", and an empty part. The answer is a byte with the exit status and two parts,
// for the standard output and the standard error.
package command
