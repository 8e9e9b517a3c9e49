package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Stat has the fields of /proc/PID/stat that kernels need.
type Stat struct {
	Parent int
	// Group is the process group.
	Group int
	// Start is the time of the process's start, on the clock of SinceBoot.
	Start time.Duration
	// CPU is the CPU time of all threads, and ChildrenCPU that of the children that were
	// reaped.
	CPU, ChildrenCPU time.Duration

	state    byte
	exiting  bool // the main thread has begun to exit
	exitCode int
}

// tick is the unit of times in /proc/PID/stat. USER_HZ is 100 on every architecture that Go
// supports.
const tick = 10 * time.Millisecond

// flagExiting is PF_EXITING of Linux, in the field flags.
const flagExiting = 4

// SinceBoot returns the present time on the clock of Stat.Start, rounded down as that is.
func SinceBoot() time.Duration { return time.Duration(bootTime()).Truncate(tick) }

// Dead reports whether the process has ended, even if it has not been reaped.
func (s Stat) Dead() bool { return s.state == 'Z' || s.state == 'X' }

// ReadStat reads the Stat of a process.
func ReadStat(pid int) (Stat, error) {
	b, err := readReady("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Stat{}, err
	}
	return parseStat(b)
}

// parseStat parses the fields after the command's name. The name may contain spaces and
// parentheses; the last ) closes it.
func parseStat(b []byte) (Stat, error) {
	end := bytes.LastIndexByte(b, ')')
	if end < 0 {
		return Stat{}, errors.New("sandbox: stat of a process without a name")
	}
	f := strings.Fields(string(b[end+1:]))
	// The first field here is the state, field 3 of proc(5). exit_code is field 52.
	if len(f) < 50 || len(f[0]) != 1 {
		return Stat{}, fmt.Errorf("sandbox: stat of a process has %d fields", len(f))
	}
	var n [53]int64 // by the number of the field in proc(5)
	for _, i := range []int{4, 5, 9, 14, 15, 16, 17, 22, 52} {
		var err error
		if n[i], err = strconv.ParseInt(f[i-3], 10, 64); err != nil {
			return Stat{}, fmt.Errorf("sandbox: stat of a process: %w", err)
		}
	}
	return Stat{
		Parent: int(n[4]), Group: int(n[5]), Start: time.Duration(n[22]) * tick,
		CPU: time.Duration(n[14]+n[15]) * tick, ChildrenCPU: time.Duration(n[16]+n[17]) * tick,
		state: f[0][0], exiting: n[9]&flagExiting != 0, exitCode: int(n[52]),
	}, nil
}

// allPids lists the processes that /proc shows, in no particular order.
func allPids() ([]int, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	pids := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// childrenOf lists the children of all threads of a process. A process that has ended has
// none.
func childrenOf(pid int) ([]int, error) {
	dir := "/proc/" + strconv.Itoa(pid) + "/task"
	threads, err := os.ReadDir(dir)
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var children []int
	for _, t := range threads {
		b, err := readReady(dir + "/" + t.Name() + "/children")
		if gone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, f := range strings.Fields(string(b)) {
			child, err := strconv.Atoi(f)
			if err != nil {
				return nil, err
			}
			children = append(children, child)
		}
	}
	return children, nil
}

// descendantsOf lists the children of pid, their children and so on.
func descendantsOf(pid int) ([]int, error) {
	seen := map[int]bool{pid: true}
	var all []int
	for queue := []int{pid}; len(queue) > 0; queue = queue[1:] {
		children, err := childrenOf(queue[0])
		if err != nil {
			return nil, err
		}
		for _, c := range children {
			if !seen[c] {
				seen[c] = true
				all = append(all, c)
				queue = append(queue, c)
			}
		}
	}
	return all, nil
}

// gone reports whether an error only means that a process has ended.
func gone(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}

// procField returns the value of a line such as "VmRSS:	 12 kB", without the name and the
// surrounding blanks.
func procField(b []byte, name string) (string, bool) {
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(rest), true
		}
	}
	return "", false
}
