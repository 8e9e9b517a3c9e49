package registry

import (
	"time"

	"golang.org/x/sys/unix"
)

// asleep gives how long this machine has been suspended since it booted. The
// clock behind time.Now stands still meanwhile; the leader's does not.
func asleep() time.Duration {
	var boot, running unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &running) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return 0
	}
	return time.Duration(boot.Nano() - running.Nano())
}
