package oneshot

import (
	"fmt"
	"time"
)

// exit is the exit status and the resource usage of a program's own process.
type exit struct {
	// Known is false if the status could not be determined.
	Known bool `json:"known"`
	// Told is true if an order to end had reached the process before it ended.
	Told bool `json:"told,omitempty"`
	// Code is the exit status. It is valid only if Signal is empty.
	Code int `json:"code"`
	// Signal is the signal that killed the process, such as SIGSEGV.
	Signal string        `json:"signal,omitempty"`
	CPU    time.Duration `json:"cpu"`
	// MaxRSS is the maximum of the process and of the children that it waited for, in
	// bytes.
	MaxRSS int64 `json:"max_rss"`
}

// String completes a sentence that begins with the process.
func (e exit) String() string {
	switch {
	case !e.Known:
		return "ended, and how is not known"
	case e.Signal != "":
		return "was killed by " + e.Signal
	}
	return fmt.Sprintf("exited with status %d", e.Code)
}
