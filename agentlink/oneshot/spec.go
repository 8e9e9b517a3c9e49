package oneshot

import "time"

// spec says how to start a program.
type spec struct {
	Path string   `json:"path"`
	Args []string `json:"args"` // including the program's name
	Env  []string `json:"env"`
	Dir  string   `json:"dir"`
	// Stdin is a file. If empty, the null device is used.
	Stdin string `json:"stdin,omitempty"`
	// Talks adds the two frame pipes. Their descriptor numbers are appended to the
	// arguments.
	Talks bool `json:"talks,omitempty"`
}

const (
	// interruptGrace is how long interrupted code may run on before it is killed.
	interruptGrace = time.Second
	// killLimit bounds the attempts to kill processes.
	killLimit = 3 * time.Second
	// drainLimit bounds how long output is read while a process that could not be killed
	// may still write.
	drainLimit = 200 * time.Millisecond
)
