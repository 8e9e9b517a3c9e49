package mesh

import (
	"time"

	"golang.org/x/sys/unix"
)

// timeAsleep gives a function that tells how long the machine was asleep since some
// fixed time: what the boot clock counts and the monotonic clock does not. Somebody
// who sets the wall clock is not taken for a sleep.
func timeAsleep() func() time.Duration {
	read := func(clock int32) (time.Duration, error) {
		var t unix.Timespec
		err := unix.ClockGettime(clock, &t)
		return time.Duration(t.Nano()), err
	}
	last := time.Duration(0)
	return func() time.Duration {
		mono, err := read(unix.CLOCK_MONOTONIC)
		if err != nil {
			return last
		}
		boot, err := read(unix.CLOCK_BOOTTIME)
		if err != nil {
			return last
		}
		last = boot - mono
		return last
	}
}
