package mesh

import (
	"context"
	"time"
)

const (
	watchEvery = time.Second
	// sleepFrom is the shortest sleep that is told. Connections outlive shorter ones.
	sleepFrom = 5 * time.Second
)

// Watch tells of each time that this machine was asleep for more than five seconds,
// with how long it was, within about a second of its waking. It returns when ctx ends.
// Timers do not help there: the clock they run on stands still meanwhile.
func Watch(ctx context.Context, slept func(jump time.Duration)) {
	watchClock(ctx, timeAsleep(), slept)
}

// watchClock compares, each second, how long the machine was asleep so far.
func watchClock(ctx context.Context, asleep func() time.Duration, slept func(time.Duration)) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	last := asleep()
	for {
		select {
		case <-tick.C:
			now := asleep()
			if now-last > sleepFrom {
				slept(now - last)
			}
			last = now
		case <-ctx.Done():
			return
		}
	}
}
