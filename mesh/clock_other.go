//go:build !linux

package mesh

import "time"

// timeAsleep returns a function that reads how far the wall clock has run ahead of the
// monotonic clock, which stands still during a suspension. A wall clock that is set
// forward is mistaken for a suspension, which costs no more than some new connections.
func timeAsleep() func() time.Duration {
	start := time.Now()
	return func() time.Duration {
		now := time.Now()
		return now.Round(0).Sub(start.Round(0)) - now.Sub(start)
	}
}
