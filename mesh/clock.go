package mesh

import (
	"context"
	"time"
)

const (
	watchEvery = time.Second
	// sleepFrom is the shortest suspension that is reported. Connections survive shorter ones.
	sleepFrom = 5 * time.Second
)

// Watch calls slept after each time that this machine was suspended for more than five
// seconds, with the length of the suspension, within about a second after it. It returns
// when ctx ends. Timers cannot detect a suspension, because the monotonic clock that they
// use stands still during it.
func Watch(ctx context.Context, slept func(jump time.Duration)) {
	watchClock(ctx, timeAsleep(), slept)
}

// watchClock polls asleep, the total time suspended, every second.
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
