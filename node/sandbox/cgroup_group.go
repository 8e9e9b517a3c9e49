package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// unifiedHolder holds processes in a v2 control group.
type unifiedHolder struct{ dir string }

func (h unifiedHolder) add(pid int) error {
	return writeControl(h.dir, "cgroup.procs", strconv.Itoa(pid))
}

func (h unifiedHolder) pids() ([]int, error) { return pidsBelow(h.dir) }

func (h unifiedHolder) freeze(on bool) error { return freezeCgroup(h.dir, on) }

func (h unifiedHolder) killExcept(spared func([]int) []int, stay bool) error {
	if spared == nil {
		return killCgroup(h.dir)
	}
	return killFrozen(h.dir, spared, stay)
}

func (h unifiedHolder) remove() error { return removeCgroup(h.dir) }

// v1Account is a group's own control group of one v1 controller.
type v1Account struct{ dir string }

func (a v1Account) add(pid int) error {
	return writeControl(a.dir, "cgroup.procs", strconv.Itoa(pid))
}

// remove is called when the group's holder is empty. Processes that are still here are
// just moving to another group and are not accounted there yet.
func (a v1Account) remove() error {
	deadline := time.Now().Add(cgroupTime)
	for pause := time.Millisecond; ; pause *= 2 {
		err := os.Remove(a.dir)
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return err
		}
		pids, err := pidsIn(a.dir)
		if err != nil {
			return err
		}
		for _, pid := range pids {
			if err := writeControl(filepath.Dir(a.dir), "cgroup.procs", strconv.Itoa(pid)); err != nil && !gone(err) {
				return err
			}
		}
		time.Sleep(pause)
	}
}

// homeAccount is for groups without a control group of their own. It moves a process that
// comes from a group with one back to the container's. Until such a group exists, it does
// nothing.
type homeAccount struct {
	dir    string // the container's
	needed *atomic.Bool
}

func (a homeAccount) add(pid int) error {
	if !a.needed.Load() {
		return nil
	}
	return writeControl(a.dir, "cgroup.procs", strconv.Itoa(pid))
}

func (a homeAccount) remove() error { return nil }

// unifiedMeter reads the memory controller of a v2 control group.
type unifiedMeter struct{ dir string }

func (m unifiedMeter) peak() int64 { return counted(readNumber(m.dir, "memory.peak")) }
func (m unifiedMeter) ooms() int   { return int(counted(readKey(m.dir, "memory.events", "oom_kill"))) }

// v1Meter reads a v1 memory control group.
type v1Meter struct{ dir string }

func (m v1Meter) peak() int64 { return counted(readNumber(m.dir, "memory.max_usage_in_bytes")) }
func (m v1Meter) ooms() int   { return int(counted(readKey(m.dir, "memory.oom_control", "oom_kill"))) }

// counted returns 0, for unknown, if a file cannot be read: older versions of Linux lack
// some.
func counted(n int64, err error) int64 {
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// limitMemory2 and limitMemory1 set a limit on memory and swap together.
func limitMemory2(dir string, bytes int64) error {
	if err := writeControl(dir, "memory.max", strconv.FormatInt(bytes, 10)); err != nil {
		return err
	}
	// Without swap support there is no such file and nothing to limit.
	return ifExists(writeControl(dir, "memory.swap.max", "0"))
}

func limitMemory1(dir string, bytes int64) error {
	if err := writeControl(dir, "memory.limit_in_bytes", strconv.FormatInt(bytes, 10)); err != nil {
		return err
	}
	return ifExists(writeControl(dir, "memory.memsw.limit_in_bytes", strconv.FormatInt(bytes, 10)))
}

func limitProcesses(dir string, n int) error {
	return writeControl(dir, "pids.max", strconv.Itoa(n))
}

func ifExists(err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	return err
}

// newCgroup makes a control group and sets its limits. On an error it removes the group.
func newCgroup(dir string, limit ...func(dir string) error) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for _, f := range limit {
		if err := f(dir); err != nil {
			return errors.Join(err, os.Remove(dir))
		}
	}
	return nil
}
