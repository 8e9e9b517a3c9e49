//go:build !linux

package mesh

import "time"

// timeAsleep gives a function that tells how far the wall clock has run ahead of the
// monotonic clock, which stands still in sleep. A wall clock that is set forward is
// taken for a sleep too; all that costs is some new connections.
func timeAsleep() func() time.Duration {
	start := time.Now()
	return func() time.Duration {
		now := time.Now()
		return now.Round(0).Sub(start.Round(0)) - now.Sub(start)
	}
}
