package registry

import (
	"time"

	"golang.org/x/sys/unix"
)

// suspendedTime returns how long this machine has been suspended since it booted. The
// monotonic clock of time.Now stops during suspension, while the leader's goes on.
func suspendedTime() time.Duration {
	var boot, running unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &running) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return 0
	}
	return time.Duration(boot.Nano() - running.Nano())
}
