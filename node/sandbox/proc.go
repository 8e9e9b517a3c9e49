package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// procStat has the fields of /proc/PID/stat that this package uses.
type procStat struct {
	state    byte
	exiting  bool // its main thread has begun to exit
	ppid     int
	pgrp     int
	start    uint64
	exitCode int
}

// flagExiting is PF_EXITING of Linux, in the field flags.
const flagExiting = 4

// dead reports whether the process has ended, even if it has not been reaped.
func (s procStat) dead() bool { return s.state == 'Z' || s.state == 'X' }

func readStat(pid int) (procStat, error) {
	b, err := readReady("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return procStat{}, err
	}
	return parseStat(b)
}

// parseStat parses the fields after the command's name. The name may contain spaces and
// parentheses; the last ) closes it.
func parseStat(b []byte) (procStat, error) {
	end := bytes.LastIndexByte(b, ')')
	if end < 0 {
		return procStat{}, errors.New("sandbox: stat of a process without a name")
	}
	f := strings.Fields(string(b[end+1:]))
	// f[0] is field 3 of proc(5); exit_code is field 52.
	if len(f) < 50 || len(f[0]) != 1 {
		return procStat{}, fmt.Errorf("sandbox: stat of a process has %d fields", len(f))
	}
	s := procStat{state: f[0][0]}
	var err error
	if s.ppid, err = strconv.Atoi(f[1]); err != nil {
		return procStat{}, err
	}
	if s.pgrp, err = strconv.Atoi(f[2]); err != nil {
		return procStat{}, err
	}
	flags, err := strconv.ParseUint(f[6], 10, 64)
	if err != nil {
		return procStat{}, err
	}
	s.exiting = flags&flagExiting != 0
	if s.start, err = strconv.ParseUint(f[19], 10, 64); err != nil {
		return procStat{}, err
	}
	if s.exitCode, err = strconv.Atoi(f[49]); err != nil {
		return procStat{}, err
	}
	return s, nil
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
