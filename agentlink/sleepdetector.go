package agentlink

import (
	"sync"
	"time"
)

const (
	// awakeCheckEvery is the interval of calls of awake. A longer gap than minSleep means
	// that the machine was suspended.
	awakeCheckEvery = time.Second
	minSleep        = 2 * awakeCheckEvery
	// suspectFor is how long after a suspension a message may have been sent before it.
	// Messages that arrived meanwhile wait in the socket buffer and are read within
	// moments.
	suspectFor = 5 * time.Second
	// shortCall is the longest timeout that may have passed during a suspension too short
	// to be detected. The program of such a call is not sent with its offer: the machine
	// has to ask for it.
	shortCall = minSleep + time.Second
)

// sleepDetector tells whether the machine, or the process, was suspended a moment ago. An
// offer that is read then may be old, and its caller may no longer wait.
type sleepDetector struct {
	mu           sync.Mutex
	last         time.Time // when the clock was last looked at
	suspectUntil time.Time // until then messages may be old
}

func newSleepDetector(now time.Time) *sleepDetector { return &sleepDetector{last: now} }

// awake records that the process runs now. It returns false for suspectFor after a
// suspension.
func (p *sleepDetector) awake(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	// The monotonic clock stands still during a suspension on some systems. It does not
	// while a process is stopped.
	gap := max(now.Sub(p.last), now.Round(0).Sub(p.last.Round(0)))
	p.last = now
	if gap > minSleep {
		p.suspectUntil = now.Add(suspectFor)
	}
	return !now.Before(p.suspectUntil)
}
