//go:build unix

package oneshot

import "syscall"

// openFlags make an open neither block, for instance on a pipe, nor follow a link.
const openFlags = syscall.O_NONBLOCK | syscall.O_NOFOLLOW
