package oneshot

import (
	"fmt"
	"time"
)

// exit says how a program's own process ended, and what it cost.
type exit struct {
	// Known is false when nobody could learn the status.
	Known bool `json:"known"`
	// Told says that the agent's order to end has reached it before its end.
	Told bool `json:"told,omitempty"`
	// Code is the exit status; it counts only when Signal is empty.
	Code int `json:"code"`
	// Signal names what killed the process, such as SIGSEGV.
	Signal string        `json:"signal,omitempty"`
	CPU    time.Duration `json:"cpu"`
	// MaxRSS is the largest of the process and of the children that it waited for, in
	// bytes.
	MaxRSS int64 `json:"max_rss"`
}

// String describes the exit in the middle of a sentence.
func (e exit) String() string {
	switch {
	case !e.Known:
		return "ended, and how is not known"
	case e.Signal != "":
		return "was killed by " + e.Signal
	}
	return fmt.Sprintf("exited with status %d", e.Code)
}
