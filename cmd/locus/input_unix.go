//go:build unix

package main

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// awaitInput waits for input and reports whether there is any.
func awaitInput(in *os.File, limit time.Duration) (bool, error) {
	poll := []unix.PollFd{{Fd: int32(in.Fd()), Events: unix.POLLIN}}
	n, err := unix.Poll(poll, int(limit.Milliseconds()))
	if errors.Is(err, unix.EINTR) {
		err = nil
	}
	return n > 0, err
}

// isUnread reports that the other end of a pipe or socket is closed.
func isUnread(out *os.File) bool {
	poll := []unix.PollFd{{Fd: int32(out.Fd())}}
	n, err := unix.Poll(poll, 0)
	return err == nil && n > 0 && poll[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
}
