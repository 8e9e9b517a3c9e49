package kernel

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/locusrun/locus/node/sandbox"
	"github.com/locusrun/locus/surfaces"
)

// EnsureFiles sees to it that a kernel's process has room for the descriptors that the
// kernel itself needs, before the process is asked for something: it raises the limit
// where code has lowered it, or has as many files open as it may. The limit stays raised.
// An error is a *surfaces.Refusal; a process that is gone is none.
func EnsureFiles(pid int) error {
	var limit unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &limit); err != nil {
		return nil // it is gone, which whoever asks it is told
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

// openFiles counts the descriptors of a process; 0 when they cannot be counted.
func openFiles(pid int) int {
	path := fmt.Sprintf("/proc/%d/fd", pid)
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	if n := info.Size(); n > 0 {
		return int(n)
	}
	// Before Linux 6.2 the folder does not tell how many there are.
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
