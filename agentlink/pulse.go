package agentlink

import (
	"sync"
	"time"
)

const (
	// beatEvery is the time between two beats of a pulse, and asleepFrom the longest one
	// without a beat in which a machine was surely awake.
	beatEvery  = time.Second
	asleepFrom = 2 * beatEvery
	// doubtFor is how long after a sleep what comes may still have been sent before it:
	// that is read within moments, from where it waited in this machine.
	doubtFor = 5 * time.Second
	// briefCall is the most time of a call that may be over after a sleep which was too
	// short to be noticed: a machine has to ask for its program.
	briefCall = asleepFrom + time.Second
)

// pulse tells a machine that it slept, or was stopped, a moment ago: then what it reads
// may have been sent long before, and nobody may wait for it any more.
type pulse struct {
	mu     sync.Mutex
	last   time.Time
	doubts time.Time // the end of the doubt
}

func newPulse(now time.Time) *pulse { return &pulse{last: now} }

// beat notes that the machine is awake now, and reports whether it was all the time.
func (p *pulse) beat(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Asleep, the monotonic clock stands still on some systems; stopped, it does not.
	gap := max(now.Sub(p.last), now.Round(0).Sub(p.last.Round(0)))
	p.last = now
	if gap > asleepFrom {
		p.doubts = now.Add(doubtFor)
	}
	return !now.Before(p.doubts)
}
