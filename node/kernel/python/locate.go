package python

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
)

// MinMinor is the oldest supported minor version of Python 3.
const MinMinor = 9

// TooOldError is the error of an interpreter older than MinMinor.
type TooOldError struct {
	Path         string
	Major, Minor int
}

// Error names the interpreter and the version that is needed.
func (e *TooOldError) Error() string {
	return fmt.Sprintf("%s is Python %d.%d; kernels need 3.%d or later", e.Path, e.Major, e.Minor, MinMinor)
}

// Locate finds the machine's Python, python3 in PATH, and returns the path of the real
// interpreter behind shims and links, which start more slowly. If there is none, the
// error wraps exec.ErrNotFound; if it is too old, the error is a *TooOldError.
func Locate(ctx context.Context) (string, error) {
	path, err := exec.LookPath("python3")
	if err != nil {
		return "", fmt.Errorf("find python3: %w", err)
	}
	return Resolve(ctx, path)
}

// Resolve asks an interpreter for the path of its real executable and checks its
// version. For a virtual environment the result is the environment's interpreter, not
// the one that it was made from.
func Resolve(ctx context.Context, path string) (string, error) {
	const question = "import json, sys; print(json.dumps([sys.executable, sys.version_info[0], sys.version_info[1]]))"
	out, err := exec.CommandContext(ctx, path, "-I", "-S", "-c", question).Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			return "", fmt.Errorf("ask %s for its version: %w: %s", path, err, failed.Stderr)
		}
		return "", fmt.Errorf("ask %s for its version: %w", path, err)
	}
	var executable string
	var major, minor int
	if err := json.Unmarshal(out, &[]any{&executable, &major, &minor}); err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", path, err)
	}
	if major != 3 || minor < MinMinor {
		return "", &TooOldError{Path: path, Major: major, Minor: minor}
	}
	return executable, nil
}
