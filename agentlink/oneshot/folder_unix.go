//go:build unix

package oneshot

import "syscall"

// openFlags keep an open from waiting, for instance on a pipe, and from following a link.
const openFlags = syscall.O_NONBLOCK | syscall.O_NOFOLLOW
