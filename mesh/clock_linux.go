package mesh

import (
	"time"

	"golang.org/x/sys/unix"
)

// timeAsleep returns a function that reads how long the machine was suspended since boot:
// the difference of the boot clock and the monotonic clock. Changes of the wall clock do
// not affect it.
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
