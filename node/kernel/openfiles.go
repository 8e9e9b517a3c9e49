package kernel

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/locusrun/locus/surfaces"
)

// fewestFiles is how many descriptors a kernel's process may have open at least: what it
// is sent with a request, and what it needs to copy itself.
const fewestFiles = 64

// EnsureFiles raises the limit of open files of a kernel's process where code has lowered
// it under what the kernel itself needs, before the process is asked for something. It
// stays raised. An error is a *surfaces.Refusal; a process that is gone is none.
func EnsureFiles(pid int) error {
	var limit unix.Rlimit
	err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &limit)
	if err != nil || limit.Cur >= fewestFiles {
		return nil // it is gone, which whoever asks it is told
	}
	raised := unix.Rlimit{Cur: fewestFiles, Max: max(limit.Max, fewestFiles)}
	if err = unix.Prlimit(pid, unix.RLIMIT_NOFILE, &raised, nil); err == nil || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return &surfaces.Refusal{
		Code: surfaces.CodeInvalidArgument,
		Message: fmt.Sprintf("code of the session has lowered its limit of open files to %d, which is too few to run code or to copy the session, and it cannot be raised again (%v)",
			limit.Cur, err),
		Suggestion: "End the session with close_session, or empty it with reset_session.",
	}
}
