package sandbox

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// freezeCgroup freezes a v2 control group and waits until it is frozen, or thaws it.
func freezeCgroup(dir string, frozen bool) error {
	value, want := "0", int64(0)
	if frozen {
		value, want = "1", 1
	}
	if err := writeControl(dir, "cgroup.freeze", value); err != nil {
		return err
	}
	if !frozen {
		// Thawing needs no wait: the processes will be scheduled again.
		return nil
	}
	return waitEvent(dir, "frozen", want, time.Now().Add(cgroupTime))
}

// killFrozen freezes a v2 control group, so that nothing in it can fork, kills all but the
// spared processes and waits for their ends. Then it thaws the group, unless stay is set.
func killFrozen(dir string, spared func(pids []int) []int, stay bool) (err error) {
	deadline := time.Now().Add(cgroupTime)
	// A process in an uninterruptible wait delays the freeze. Kill in rounds anyway.
	if err := freezeCgroup(dir, true); err != nil && !errors.Is(err, errDeadline) {
		return err
	}
	defer func() {
		if !stay {
			err = errors.Join(err, freezeCgroup(dir, false))
		}
	}()
	for {
		pids, err := pidsBelow(dir)
		if err != nil {
			return err
		}
		if spared != nil {
			keep := spared(pids)
			pids = slices.DeleteFunc(pids, func(pid int) bool { return slices.Contains(keep, pid) })
		}
		if len(pids) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: %d left", errStillAlive, len(pids))
		}
		waitAll(killAll(pids), deadline)
	}
}
