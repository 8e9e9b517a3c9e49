// Package shell runs programs in bash, sh and zsh.
//
// A session is one shell that runs call after call. Requests and replies go through named
// pipes that the shell opens for each of them, so code finds no descriptor of the node's
// while it runs. The output of each call has a pair of named pipes of its own, so a
// process that a call left running can neither delay a later call nor write into its
// output. A reply without the kernel's secret token is dropped, so output cannot be
// mistaken for a reply.
//
// DESIGN.md describes the protocol and the guarantees.
package shell
