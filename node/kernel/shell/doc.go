// Package shell runs programs in bash, sh and zsh.
//
// A session is a resident shell. Requests and replies go over named pipes that
// the shell opens anew for each, so no descriptor of ours is within reach of the
// code between them; the output of each call goes to a pair of named pipes of
// its own, so a process that a call left running can neither hold up nor soil a
// later one. What the code prints is never read as control, and a reply without
// the kernel's secret token is dropped.
//
// DESIGN.md beside this file tells the protocol and what is promised.
package shell
