package sandbox

import (
	"fmt"
	"syscall"
)

// Exit is how a process ended.
type Exit struct {
	// Known is false if the status could not be determined.
	Known bool
	// Code is the exit status. It is valid only if Signal is 0.
	Code int
	// Signal is the signal that killed the process, or 0.
	Signal syscall.Signal
	// OOM is true if the process was killed because of a memory limit.
	OOM bool
}

// ExitOf converts a wait status.
func ExitOf(ws syscall.WaitStatus) Exit {
	if ws.Signaled() {
		return Exit{Known: true, Signal: ws.Signal()}
	}
	return Exit{Known: true, Code: ws.ExitStatus()}
}

// String describes the exit for logs and messages.
func (e Exit) String() string {
	switch {
	case e.OOM:
		return "was killed for using more memory than its limit"
	case !e.Known:
		return "ended, and how is not known"
	case e.Signal != 0:
		return "was killed by " + SignalName(e.Signal)
	}
	return fmt.Sprintf("exited with status %d", e.Code)
}
