package chaos

import (
	"time"

	"golang.org/x/sys/unix"
)

// clock counts from the start of a run.
type clock struct {
	start time.Time
	// origin is the start on the clock that the called code reads.
	origin int64
}

func newClock() (clock, error) {
	var ts unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return clock{time.Now(), ts.Nano()}, err
}

func (c clock) now() int64 { return int64(time.Since(c.start)) }
