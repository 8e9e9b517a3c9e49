package kernel

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/locusrun/locus/node/sandbox"
	"github.com/locusrun/locus/surfaces"
)

// EnsureFiles makes sure that a kernel's process can open the descriptors that the
// kernel itself needs for its next request. If the session's code has lowered
// RLIMIT_NOFILE or has used it up, EnsureFiles raises it, for good. Its error is a
// *surfaces.Refusal; a process that has ended is not an error.
func EnsureFiles(pid int) error {
	var limit unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &limit); err != nil {
		return nil // it has ended, which the next request reports
	}
	open := openFiles(pid)
	least := uint64(open + sandbox.KernelFiles)
	if limit.Cur >= least {
		return nil
	}
	raised := unix.Rlimit{Cur: least, Max: max(limit.Max, least)}
	err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &raised, nil)
	if err == nil || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return &surfaces.Refusal{
		Code: surfaces.CodeInvalidArgument,
		Message: fmt.Sprintf("code of the session has %d files open and may have %d, which leaves too few to run this or to copy the session, and the limit cannot be raised (%v)",
			open, limit.Cur, err),
		Suggestion: "Close some of its files, end the session with close_session, or empty it with reset_session.",
	}
}

// openFiles counts the open descriptors of a process; 0 if they cannot be counted.
func openFiles(pid int) int {
	path := fmt.Sprintf("/proc/%d/fd", pid)
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	if n := info.Size(); n > 0 {
		return int(n)
	}
	// Before Linux 6.2 the directory's size is not the number of descriptors.
	folder, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer folder.Close()
	names, err := folder.Readdirnames(-1)
	if err != nil {
		return 0
	}
	return len(names)
}
