package sandbox

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// freezeCgroup freezes or thaws a v2 control group and waits until it is so.
func freezeCgroup(dir string, frozen bool) error {
	value, want := "0", int64(0)
	if frozen {
		value, want = "1", 1
	}
	if err := writeControl(dir, "cgroup.freeze", value); err != nil {
		return err
	}
	if !frozen {
		// Thawing needs no wait: the processes run again as the kernel gets to them.
		return nil
	}
	return waitEvent(dir, "frozen", want, time.Now().Add(cgroupTime))
}

// killFrozen freezes a v2 control group, so that nothing in it can fork, kills
// all but the spared and waits for their ends. Then the group thaws, unless it is
// to stay frozen.
func killFrozen(dir string, spared func(pids []int) []int, stay bool) (err error) {
	deadline := time.Now().Add(cgroupTime)
	// A process in an uninterruptible wait delays the freeze; killing goes on all
	// the same, in rounds.
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
