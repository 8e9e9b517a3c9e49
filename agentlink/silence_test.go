package agentlink

import (
	"testing"
	"testing/synctest"
	"time"
)

// A node that stood still reads what arrived meanwhile before it declares a machine silent.
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

// A check a moment before a heartbeat is due sends it: otherwise each heartbeat would be a
// second late.
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
