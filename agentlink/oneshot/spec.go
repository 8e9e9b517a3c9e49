package oneshot

import "time"

// spec is a program that is to be started.
type spec struct {
	Path string   `json:"path"`
	Args []string `json:"args"` // with the program's own name first
	Env  []string `json:"env"`
	Dir  string   `json:"dir"`
	// Stdin is a file; the null device if empty.
	Stdin string `json:"stdin,omitempty"`
	// Talks says that the program is given the two pipes to the agent; their numbers are
	// added to its arguments.
	Talks bool `json:"talks,omitempty"`
}

const (
	// interruptGrace is how long code may take to heed an interrupt before it is killed.
	interruptGrace = time.Second
	// killLimit bounds how long it is tried to kill what does not die.
	killLimit = 3 * time.Second
	// drainLimit bounds how long output is read that a process which could not be killed
	// may still write.
	drainLimit = 200 * time.Millisecond
)
