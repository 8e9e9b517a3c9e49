package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroupTime bounds each wait for the operating system to apply a change to a control
// group.
const cgroupTime = 5 * time.Second

// writeControl writes one control file of a control group.
func writeControl(dir, file, value string) error {
	return writeReady(filepath.Join(dir, file), value)
}

// readNumber reads a control file with one number; "max" is returned as -1.
func readNumber(dir, file string) (int64, error) {
	b, err := readReady(filepath.Join(dir, file))
	if err != nil {
		return 0, err
	}
	s := strings.TrimSpace(string(b))
	if s == "max" {
		return -1, nil
	}
	return strconv.ParseInt(s, 10, 64)
}

// readKey reads the number of a key in a control file with lines "key number".
func readKey(dir, file, key string) (int64, error) {
	b, err := readReady(filepath.Join(dir, file))
	if err != nil {
		return 0, err
	}
	return parseKey(string(b), key)
}

func parseKey(text, key string) (int64, error) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, key+" "); ok {
			return strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
		}
	}
	return 0, fmt.Errorf("sandbox: no %q in a control file", key)
}

// pidsIn lists the processes in a control group, without those in groups below it.
func pidsIn(dir string) ([]int, error) {
	b, err := readReady(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	var pids []int
	for f := range strings.FieldsSeq(string(b)) {
		pid, err := strconv.Atoi(f)
		if err != nil {
			return nil, err
		}
		// 0 is a process of another pid namespace.
		if pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// pidsBelow lists the processes in a control group and all groups below it.
func pidsBelow(dir string) ([]int, error) {
	var pids []int
	err := eachBelow(dir, func(d string) error {
		in, err := pidsIn(d)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENODEV) {
			return nil
		}
		pids = append(pids, in...)
		return err
	})
	return pids, err
}

// eachBelow visits a control group and all groups below it, the deepest first.
func eachBelow(dir string, visit func(dir string) error) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := eachBelow(filepath.Join(dir, e.Name()), visit); err != nil {
				return err
			}
		}
	}
	return visit(dir)
}

// The first and the longest interval at which waitEvent polls cgroup.events in addition to
// waiting for its notifications. The operating system delays a notification if the last
// one was less than 10 ms ago, which is common for short calls.
const (
	firstLook = 50 * time.Microsecond
	lastLook  = 5 * time.Millisecond
)

// waitEvent waits until a key in cgroup.events has a value.
func waitEvent(dir, key string, value int64, deadline time.Time) error {
	f, err := os.Open(filepath.Join(dir, "cgroup.events"))
	if err != nil {
		return err
	}
	defer f.Close()
	fd := int(f.Fd())
	buf := make([]byte, 256)
	for look := firstLook; ; look = min(2*look, lastLook) {
		n, err := unix.Pread(fd, buf, 0)
		if err != nil {
			return err
		}
		if is, err := parseKey(string(buf[:n]), key); err != nil || is == value {
			return err
		}
		left := time.Until(deadline)
		if left <= 0 {
			return fmt.Errorf("sandbox: %s: %q is not %d in time: %w", dir, key, value, os.ErrDeadlineExceeded)
		}
		wait := unix.NsecToTimespec(min(look, left).Nanoseconds())
		_, err = unix.Ppoll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLPRI}}, &wait, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// killCgroup kills everything in a v2 control group and waits until it is empty. Only this
// node can add a process to an empty group, so for an empty one nothing has to be done.
func killCgroup(dir string) error {
	if n, err := readKey(dir, "cgroup.events", "populated"); err == nil && n == 0 {
		return nil
	}
	err := writeControl(dir, "cgroup.kill", "1")
	if errors.Is(err, os.ErrNotExist) {
		// Linux is older than 5.14, or the group is gone.
		if _, serr := os.Stat(dir); errors.Is(serr, os.ErrNotExist) {
			return nil
		}
		return killFrozen(dir, nil, false)
	}
	if err != nil {
		return err
	}
	return waitEvent(dir, "populated", 0, time.Now().Add(cgroupTime))
}

// removeCgroup kills what is in a control group of either version, and removes it and all
// groups below it.
func removeCgroup(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "cgroup.events")); err == nil {
		if err := killCgroup(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	deadline := time.Now().Add(cgroupTime)
	for pause := time.Millisecond; ; pause *= 2 {
		err := eachBelow(dir, func(d string) error {
			err := os.Remove(d)
			if errors.Is(err, os.ErrNotExist) {
				return nil
			}
			return err
		})
		if err == nil || !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return err
		}
		// Version 1 has no notification for an empty group. Processes that are still in it
		// were killed by somebody else, or are killed here.
		pids, perr := pidsBelow(dir)
		if perr == nil {
			waitAll(killAll(pids), deadline)
		}
		time.Sleep(pause)
	}
}
