package sandbox

import (
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// SignalName returns the usual name of a signal, such as "SIGSEGV". A real-time or unknown
// signal is "SIG" and its number.
func SignalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return "SIG" + strconv.Itoa(int(s))
}
