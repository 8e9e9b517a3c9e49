package venv

import "errors"

// Reason is why an environment cannot be built.
type Reason string

const (
	Invalid       Reason = "invalid"        // the text is not a usable pyproject.toml
	Failed        Reason = "failed"         // uv failed; see Output
	Timeout       Reason = "timeout"        // Config.BuildLimit has passed
	NoInterpreter Reason = "no_interpreter" // no matching Python, and none can be installed
	NoUv          Reason = "no_uv"          // no uv, and none can be downloaded
)

// BuildError is the error of an environment that cannot be built. A retry fails in the same
// way unless something outside has changed, such as the index.
type BuildError struct {
	Reason Reason
	// Message is one sentence for people.
	Message string
	// Output has the last lines of uv's output, at most 16 KiB.
	Output string
}

// Error returns the message.
func (e *BuildError) Error() string { return e.Message }

// ErrClosed is the error of a closed store.
var ErrClosed = errors.New("venv: the store is closed")

// errAbandoned is the cause with which a build is cancelled that nobody waits for.
var errAbandoned = errors.New("venv: nobody waits for the build any more")

// errBuildLimit is the cause with which a build is cancelled that takes too long.
var errBuildLimit = errors.New("venv: the build took too long")
