package shell

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/locusrun/locus/node/sandbox"
)

// tick is the unit of times in /proc/PID/stat. USER_HZ is 100 on every architecture that
// Go supports.
const tick = 10 * time.Millisecond

// procStat has the fields of /proc/PID/stat that this package uses.
type procStat struct {
	state  byte
	parent int
	group  int
	cpu    time.Duration // including children that were reaped
	start  time.Duration // since boot
}

func readStat(pid int) (procStat, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return procStat{}, err
	}
	return parseStat(b)
}

func parseStat(b []byte) (procStat, error) {
	// The name may contain spaces and parentheses; the last ) closes it.
	end := bytes.LastIndexByte(b, ')')
	if end < 0 {
		return procStat{}, errors.New("shell: stat of a process without a name")
	}
	f := strings.Fields(string(b[end+1:]))
	if len(f) < 20 {
		return procStat{}, fmt.Errorf("shell: stat of a process has %d fields", len(f))
	}
	var n [20]int64
	for i := 1; i < 20; i++ {
		v, err := strconv.ParseInt(f[i], 10, 64)
		if err != nil {
			return procStat{}, fmt.Errorf("shell: stat of a process: %w", err)
		}
		n[i] = v
	}
	return procStat{
		state: f[0][0], parent: int(n[1]), group: int(n[2]),
		cpu:   time.Duration(n[11]+n[12]+n[13]+n[14]) * tick,
		start: time.Duration(n[19]) * tick,
	}, nil
}

// sinceBoot returns the time on the clock of the processes' start times.
func sinceBoot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0 // every process then counts as started later
	}
	// Start times are rounded down to a tick.
	return time.Duration(ts.Nano()).Truncate(tick)
}

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
