package venv

import "errors"

// Reason says why there is no environment.
type Reason string

const (
	Invalid       Reason = "invalid"        // the text is not a usable pyproject.toml
	Failed        Reason = "failed"         // the builder said no; Output has its words
	Timeout       Reason = "timeout"        // Config.BuildLimit has passed
	NoInterpreter Reason = "no_interpreter" // no Python that fits, and none can be installed
	NoUv          Reason = "no_uv"          // no uv, and none can be fetched
)

// BuildError is given when an environment cannot be built. Trying again gives the
// same, unless the world outside has changed.
type BuildError struct {
	Reason Reason
	// Message is one sentence for a person.
	Message string
	// Output has the last lines of the builder's own output, at most 16 KiB.
	Output string
}

// Error gives the message.
func (e *BuildError) Error() string { return e.Message }

// ErrClosed is given by a store that was closed.
var ErrClosed = errors.New("venv: the store is closed")

// errAbandoned is why a build is stopped for which nobody waits any more.
var errAbandoned = errors.New("venv: nobody waits for the build any more")

// errBuildLimit is why a build is stopped that takes too long.
var errBuildLimit = errors.New("venv: the build took too long")
