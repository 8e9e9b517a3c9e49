package sandbox

import (
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// sweepTime bounds killing and stopping while new processes keep appearing.
const sweepTime = 5 * time.Second

// sweepDeadline returns the deadline of killing or stopping that begins now.
func sweepDeadline() time.Time { return time.Now().Add(sweepTime) }

// errStillAlive is the error if processes have survived all attempts to kill them.
var errStillAlive = errors.New("sandbox: some processes could not be killed in time")

// sweep kills every process with a container's tag, except the given ones, until none is
// left. It is for machines without pid namespaces. leaders are pidfds as in find.
func sweep(containerTag uint64, leaders []int, except ...int) error {
	return killFound(func() (find, error) {
		f, err := findTagged(containerTag, func(pid int, _ tag) bool { return !slices.Contains(except, pid) })
		f.leaders = leaders
		return f, err
	})
}

// find is the result of one scan of the process table.
type find struct {
	alive []int
	// ended are zombies.
	ended []int
	// groups are the process groups of which all members were found. A process that keeps
	// forking and exiting is always gone when a signal arrives, but its process group is
	// not.
	groups []int
	// mixed are the process groups that also have other members of the container.
	mixed map[int]bool
	// leaders are pidfds of processes that lead or led a process group of ours, without
	// those of mixed groups. Newer versions of Linux can signal the group through the pidfd
	// even after the leader's end, and never reach another group with the same number.
	leaders []int
}

// signalGroups sends a signal to the process groups. It fails for groups without members,
// which does not matter.
func (f find) signalGroups(s unix.Signal) {
	for _, pgrp := range f.groups {
		_ = unix.Kill(-pgrp, s)
	}
	for _, fd := range f.leaders {
		_ = unix.PidfdSendSignal(fd, s, nil, unix.PIDFD_SIGNAL_PROCESS_GROUP)
	}
}

// ahead is how many pids above the highest one a scan tries too, for processes that are
// created during the scan.
const ahead = 128

// findTagged scans for the processes of a container that want selects. Processes of other
// users cannot be read, and are not the container's.
func findTagged(containerTag uint64, want func(pid int, t tag) bool) (find, error) {
	pids, err := allPids()
	if err != nil {
		return find{}, err
	}
	slices.Sort(pids)
	if len(pids) > 0 {
		top := pids[len(pids)-1]
		for n := range ahead {
			pids = append(pids, top+1+n)
		}
	}
	return findAmong(pids, containerTag, want), nil
}

// findAmong scans these pids, of which some may not exist or be threads. It starts with the
// last ones, which are the youngest, and reads the process group first, because a
// short-lived process may be gone a moment later.
func findAmong(pids []int, containerTag uint64, want func(pid int, t tag) bool) find {
	f := find{mixed: map[int]bool{}}
	pure := map[int]bool{}
	for _, pid := range slices.Backward(pids) {
		t, err := tagOf(pid)
		if err != nil || t.container != containerTag {
			continue
		}
		pgrp, err := unix.Getpgid(pid)
		if err != nil {
			continue
		}
		if isThread(pid) {
			continue
		}
		wanted := want(pid, t)
		if before, seen := pure[pgrp]; !seen || before {
			pure[pgrp] = wanted
		}
		if !wanted {
			continue
		}
		if s, err := ReadStat(pid); err != nil || s.Dead() {
			f.ended = append(f.ended, pid)
		} else {
			f.alive = append(f.alive, pid)
		}
	}
	for pgrp, only := range pure {
		f.mixed[pgrp] = !only
		// kill(2) gives the groups 0 and 1 another meaning.
		if only && pgrp > 1 {
			f.groups = append(f.groups, pgrp)
		}
	}
	return f
}

// isThread reports whether a pid is that of a thread other than the main one. Pids from
// ahead may be, even of the keeper, and a signal to such a pid would reach the whole
// process.
func isThread(pid int) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		// EINVAL in older versions of Linux, ENOENT in newer ones. For a process that is gone
		// the error is another one.
		return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT)
	}
	unix.Close(fd)
	return false
}

// killFound kills what scan finds until two scans in a row find nothing alive and nothing
// new. It stops all processes before it kills the first, so that none can fork meanwhile.
func killFound(scan func() (find, error)) error {
	deadline := sweepDeadline()
	seen := map[int]bool{}
	for quiet := 0; quiet < 2; {
		f, err := stopFound(scan, deadline)
		if err != nil {
			return err
		}
		fresh := false
		for _, pid := range slices.Concat(f.alive, f.ended) {
			fresh = fresh || !seen[pid]
			seen[pid] = true
		}
		f.signalGroups(unix.SIGKILL)
		if len(f.alive) == 0 && !fresh {
			quiet++
			continue
		}
		quiet = 0
		waitAll(killAll(f.alive), deadline)
		if time.Now().After(deadline) {
			return errStillAlive
		}
	}
	return nil
}

// killAll sends SIGKILL and returns pidfds to wait on. Errors mean that a process has ended,
// or belongs to another user now; the next scan shows that.
func killAll(pids []int) []unix.PollFd {
	waits := make([]unix.PollFd, 0, len(pids))
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			unix.Kill(pid, unix.SIGKILL)
			continue
		}
		if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil {
			unix.Close(fd)
			continue
		}
		waits = append(waits, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	return waits
}

// stopFound sends SIGSTOP to what scan finds until it finds nothing new. It returns the last
// result.
func stopFound(scan func() (find, error), deadline time.Time) (find, error) {
	stopped := map[int]bool{}
	for {
		f, err := scan()
		if err != nil {
			return find{}, err
		}
		fresh := false
		for _, pid := range f.alive {
			if !stopped[pid] {
				stopped[pid], fresh = true, true
				unix.Kill(pid, unix.SIGSTOP)
			}
		}
		f.signalGroups(unix.SIGSTOP)
		if !fresh || time.Now().After(deadline) {
			return f, nil
		}
	}
}

// waitAll waits until all processes have ended or the deadline has passed, and
// closes the pidfds.
func waitAll(waits []unix.PollFd, deadline time.Time) {
	for len(waits) > 0 {
		left := time.Until(deadline)
		over := left <= 0
		if !over {
			_, err := unix.Poll(waits, int(left.Milliseconds())+1)
			over = err != nil && !errors.Is(err, unix.EINTR)
		}
		waits = slices.DeleteFunc(waits, func(w unix.PollFd) bool {
			if w.Revents == 0 && !over {
				return false
			}
			unix.Close(int(w.Fd))
			return true
		})
	}
}
