package sandbox

import (
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// sweepTime bounds how long killing goes on while new processes keep appearing.
const sweepTime = 5 * time.Second

// sweepDeadline is when a round of killing or stopping that begins now gives up.
func sweepDeadline() time.Time { return time.Now().Add(sweepTime) }

// errStillAlive is given when processes outlived all attempts to kill them.
var errStillAlive = errors.New("sandbox: some processes could not be killed in time")

// sweep kills every process that bears a container's tag, except the given ones,
// until none is left. It is for machines where the kernel cannot do it. leaders
// are pidfds as in find.
func sweep(containerTag uint64, leaders []int, except ...int) error {
	return killFound(func() (find, error) {
		f, err := findTagged(containerTag, func(pid int, _ tag) bool { return !slices.Contains(except, pid) })
		f.leaders = leaders
		return f, err
	})
}

// find is what one look at the process table gave.
type find struct {
	alive []int
	// ended are those nobody has waited for yet.
	ended []int
	// groups are the process groups that have no member but these. A process that
	// forks and exits all the time is always gone when a signal comes; its process
	// group is not.
	groups []int
	// mixed are those that have other members of the container too.
	mixed map[int]bool
	// leaders are pidfds of processes that led a process group of ours, mixed ones
	// left out. Newer kernels reach the group through it even after its end, and
	// never another that got the number.
	leaders []int
}

// signalGroups sends a signal to the process groups. It may fail for any that has
// no member any more.
func (f find) signalGroups(s unix.Signal) {
	for _, pgrp := range f.groups {
		_ = unix.Kill(-pgrp, s)
	}
	for _, fd := range f.leaders {
		_ = unix.PidfdSendSignal(fd, s, nil, unix.PIDFD_SIGNAL_PROCESS_GROUP)
	}
}

// ahead is how many pids above the highest a look tries too: those that are born
// while it looks.
const ahead = 128

// findTagged looks for the processes of a container that are wanted. Those of
// other users cannot be read, and are not ours.
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

// findAmong looks at these numbers, of which some may be nobody's or a thread's. It
// takes the last first, which are the youngest, and learns the process group before
// all else, since a short-lived process may be gone a moment later.
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
		if s, err := readStat(pid); err != nil || s.dead() {
			f.ended = append(f.ended, pid)
		} else {
			f.alive = append(f.alive, pid)
		}
	}
	for pgrp, only := range pure {
		f.mixed[pgrp] = !only
		// Group 0 and 1 in a signal's address mean something else.
		if only && pgrp > 1 {
			f.groups = append(f.groups, pgrp)
		}
	}
	return f
}

// isThread says that the number is a thread's and not its process's. What is born
// while a look goes on may be one, the keeper's own too, and a signal sent to it would
// meet the whole process.
func isThread(pid int) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		// Older kernels say the one, newer ones the other; neither says it of a
		// process that is gone.
		return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT)
	}
	unix.Close(fd)
	return false
}

// killFound kills what look finds until, twice on end, it finds nothing alive and
// nothing new. All are stopped before the first is killed, so that none can fork
// meanwhile.
func killFound(look func() (find, error)) error {
	deadline := sweepDeadline()
	seen := map[int]bool{}
	for quiet := 0; quiet < 2; {
		f, err := stopFound(look, deadline)
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

// killAll sends SIGKILL and gives what to wait on. Errors mean that a process has
// ended meanwhile, or belongs to another user now; the next look tells.
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

// stopFound sends SIGSTOP to what look finds until it finds nothing new, and
// gives what it found last.
func stopFound(look func() (find, error), deadline time.Time) (find, error) {
	stopped := map[int]bool{}
	for {
		f, err := look()
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
