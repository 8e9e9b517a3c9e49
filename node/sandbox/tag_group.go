package sandbox

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"
)

// tagHolder is the holder for machines without control groups. It finds a group's processes
// by their tag, by scanning every process of the machine.
type tagHolder struct {
	tag tag

	mu      sync.Mutex  // one freeze or kill at a time
	fdMu    sync.Mutex  // guards leaders
	leaders map[int]int // process groups of the group: pgrp -> pidfd of its leader
}

func newTagHolder(t tag) *tagHolder { return &tagHolder{tag: t, leaders: map[int]int{}} }

func (h *tagHolder) add(pid int) error {
	if err := setTag(pid, h.tag); err != nil {
		return err
	}
	if pgrp, err := unix.Getpgid(pid); err != nil || pgrp != pid {
		return nil // it does not lead a process group, or is gone
	}
	if fd, err := unix.PidfdOpen(pid, 0); err == nil {
		h.lead(pid, fd)
		unix.Close(fd)
	}
	return nil
}

// lead records a process that leads its process group. The caller keeps the pidfd.
func (h *tagHolder) lead(pid, pidfd int) {
	h.fdMu.Lock()
	defer h.fdMu.Unlock()
	if old, ok := h.leaders[pid]; ok {
		unix.Close(old)
		delete(h.leaders, pid)
	}
	if fd, err := unix.FcntlInt(uintptr(pidfd), unix.F_DUPFD_CLOEXEC, 3); err == nil {
		h.leaders[pid] = fd
	}
}

// remove closes the descriptors. The tag itself ends with the last process that has it.
func (h *tagHolder) remove() error {
	h.fdMu.Lock()
	defer h.fdMu.Unlock()
	for pid, fd := range h.leaders {
		unix.Close(fd)
		delete(h.leaders, pid)
	}
	return nil
}

// scan finds the group's processes, except those in keep.
func (h *tagHolder) scan(keep map[int]bool) (find, error) {
	f, err := findTagged(h.tag.container, func(pid int, t tag) bool { return t.group == h.tag.group && !keep[pid] })
	if err != nil {
		return find{}, err
	}
	h.fdMu.Lock()
	defer h.fdMu.Unlock()
	for pgrp, fd := range h.leaders {
		if !f.mixed[pgrp] {
			f.leaders = append(f.leaders, fd)
		}
	}
	return f, nil
}

func (h *tagHolder) copyLeaders() []int {
	h.fdMu.Lock()
	defer h.fdMu.Unlock()
	var fds []int
	for _, fd := range h.leaders {
		if c, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3); err == nil {
			fds = append(fds, c)
		}
	}
	return fds
}

func (h *tagHolder) all() (find, error) { return h.scan(nil) }

func (h *tagHolder) pids() ([]int, error) {
	f, err := h.all()
	return f.alive, err
}

func (h *tagHolder) freeze(on bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if on {
		return h.stop()
	}
	return h.resume()
}

func (h *tagHolder) stop() error {
	_, err := stopFound(h.all, sweepDeadline())
	return err
}

func (h *tagHolder) resume() error {
	pids, err := h.pids()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := unix.Kill(pid, unix.SIGCONT); err != nil && !gone(err) {
			return err
		}
	}
	return nil
}

func (h *tagHolder) killExcept(spared func([]int) []int, stay bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if spared == nil {
		return killFound(h.all)
	}
	if err := h.stop(); err != nil {
		return err
	}
	// All are stopped now, so the set of spared processes cannot change any more.
	pids, err := h.pids()
	if err != nil {
		return err
	}
	keep := map[int]bool{}
	for _, pid := range spared(pids) {
		keep[pid] = true
	}
	err = killFound(func() (find, error) { return h.scan(keep) })
	if !stay {
		err = errors.Join(err, h.resume())
	}
	return err
}
