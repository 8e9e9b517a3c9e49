package sandbox

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"
)

// tagHolder holds processes by their tag, where no control group can be made. It
// finds them by looking at every process of the machine.
type tagHolder struct {
	tag tag
	mu  sync.Mutex
}

func (h *tagHolder) add(pid int) error { return setTag(pid, h.tag) }

// remove has nothing to do: a tag is gone with the last process that bears it.
func (h *tagHolder) remove() error { return nil }

func (h *tagHolder) look() (find, error) {
	return findTagged(h.tag.container, func(_ int, t tag) bool { return t.group == h.tag.group })
}

func (h *tagHolder) pids() ([]int, error) {
	f, err := h.look()
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

func (h *tagHolder) stop() error { _, err := stopFound(h.look, sweepDeadline()); return err }

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
		return killFound(h.look)
	}
	if err := h.stop(); err != nil {
		return err
	}
	// All are stopped now, so who is spared cannot change any more.
	pids, err := h.pids()
	if err != nil {
		return err
	}
	keep := map[int]bool{}
	for _, pid := range spared(pids) {
		keep[pid] = true
	}
	err = killFound(func() (find, error) {
		return findTagged(h.tag.container, func(pid int, t tag) bool { return t.group == h.tag.group && !keep[pid] })
	})
	if !stay {
		err = errors.Join(err, h.resume())
	}
	return err
}
