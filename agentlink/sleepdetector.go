package agentlink

import (
	"sync"
	"time"
)

const (
	// awakeCheckEvery is the time between two beats of a pulse, and minSleep the longest one
	// without a beat in which a machine was surely awake.
	awakeCheckEvery = time.Second
	minSleep        = 2 * awakeCheckEvery
	// suspectFor is how long after a sleep what comes may still have been sent before it:
	// that is read within moments, from where it waited in this machine.
	suspectFor = 5 * time.Second
	// shortCall is the most time of a call that may be over after a sleep which was too
	// short to be noticed: a machine has to ask for its program.
	shortCall = minSleep + time.Second
)

// pulse tells a machine that it slept, or was stopped, a moment ago: then what it reads
// may have been sent long before, and nobody may wait for it any more.
type sleepDetector struct {
	mu           sync.Mutex
	last         time.Time
	suspectUntil time.Time // the end of the doubt
}

func newSleepDetector(now time.Time) *sleepDetector { return &sleepDetector{last: now} }

// beat notes that the machine is awake now, and reports whether it was all the time.
func (p *sleepDetector) awake(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Asleep, the monotonic clock stands still on some systems; stopped, it does not.
	gap := max(now.Sub(p.last), now.Round(0).Sub(p.last.Round(0)))
	p.last = now
	if gap > minSleep {
		p.suspectUntil = now.Add(suspectFor)
	}
	return !now.Before(p.suspectUntil)
}
