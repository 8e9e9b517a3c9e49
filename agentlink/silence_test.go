package agentlink

import (
	"testing"
	"testing/synctest"
	"time"
)

// A node that stood still reads what came meanwhile before it calls a machine silent.
func TestAStalledNodeReadsBeforeItCallsAMachineSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan time.Time, 1)
		s := newSilence(func() { ended <- time.Now() })
		defer s.stop()
		for range 3 { // the timer has fired, and the heartbeat that waited is read after it
			time.Sleep(heartbeatTimeout - lastLook/2)
			s.heard()
		}
		heard := time.Now()
		if got := (<-ended).Sub(heard); got != heartbeatTimeout {
			t.Errorf("it is silent %s after it was heard, want %s", got, heartbeatTimeout)
		}
	})
}

// The check before the heartbeat's time is over by a moment sends it: the next one would
// be a second late, each time.
func TestHeartbeatsKeepTheirTime(t *testing.T) {
	for quiet, due := range map[time.Duration]bool{
		heartbeatEvery - 10*time.Millisecond:  true,
		heartbeatEvery:                        true,
		awakeCheckEvery:                       false,
		awakeCheckEvery + 10*time.Millisecond: false,
	} {
		if heartbeatDue(quiet) != due {
			t.Errorf("after %s: %v", quiet, !due)
		}
	}
}
