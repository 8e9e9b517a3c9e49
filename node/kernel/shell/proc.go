package shell

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/locusrun/locus/node/sandbox"
)

// statusField returns the words of one field of /proc/PID/status, or nil.
func statusField(pid int, name string) []string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.Fields(rest)
		}
	}
	return nil
}

// peakRSS returns the peak resident size of a process in bytes, or 0 if unknown.
func peakRSS(pid int) int64 {
	f := statusField(pid, "VmHWM")
	if len(f) == 0 {
		return 0
	}
	kib, err := strconv.ParseInt(f[0], 10, 64)
	if err != nil {
		return 0
	}
	return kib << 10
}

// innerPid returns the pid of a process in its own pid namespace, or 0 if unknown.
func innerPid(pid int) int {
	f := statusField(pid, "NSpid")
	if len(f) == 0 {
		return 0
	}
	n, err := strconv.Atoi(f[len(f)-1])
	if err != nil {
		return 0
	}
	return n
}

// errNotFound means that no process of the group has the pid that a shell reported.
var errNotFound = errors.New("shell: the process that reported is not in its group")

// findInner finds the process of a group that has the given pid in its own pid namespace.
// It returns the pid here and a pidfd.
func findInner(g sandbox.Group, inner int) (pid int, pidfd *os.File, err error) {
	pids, err := g.Pids()
	if err != nil {
		return 0, nil, err
	}
	for _, p := range pids {
		if innerPid(p) != inner {
			continue
		}
		fd, err := unix.PidfdOpen(p, 0)
		if errors.Is(err, syscall.ESRCH) {
			continue
		}
		if err != nil {
			return 0, nil, fmt.Errorf("hold process %d: %w", p, err)
		}
		// The pid may have been reused before PidfdOpen.
		if innerPid(p) != inner {
			unix.Close(fd)
			continue
		}
		return p, os.NewFile(uintptr(fd), "pidfd"), nil
	}
	return 0, nil, fmt.Errorf("%w: %d", errNotFound, inner)
}

// hasEnded reports whether a process has ended. It can be true before the process's line
// shows it.
func hasEnded(p *sandbox.Process) bool {
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}
