package agentlink

import (
	"testing"
	"time"
)

// After a suspension, whichever clock shows it, messages are suspect for a while.
func TestSuspensionIsDetected(t *testing.T) {
	start := time.Now()
	wall := start.Round(0)
	for name, row := range map[string]struct {
		beats []time.Time
		awake []bool
	}{
		"awake": {
			[]time.Time{start.Add(time.Second), start.Add(2 * time.Second), start.Add(3900 * time.Millisecond)},
			[]bool{true, true, true},
		},
		"stopped": {
			[]time.Time{start.Add(time.Minute), start.Add(time.Minute + time.Second), start.Add(time.Minute + suspectFor - 1)},
			[]bool{false, false, false},
		},
		"stopped, and long awake again": {
			[]time.Time{
				start.Add(4 * time.Second), start.Add(5 * time.Second), start.Add(6 * time.Second), start.Add(7 * time.Second), start.Add(8 * time.Second), start.Add(9 * time.Second),
			},
			[]bool{false, false, false, false, false, true},
		},
		"asleep, as only the wall clock tells": {[]time.Time{wall.Add(time.Hour), wall.Add(time.Hour + suspectFor)}, []bool{false, false}},
		"the wall clock is set back":           {[]time.Time{wall.Add(-time.Hour), wall.Add(time.Second - time.Hour)}, []bool{true, true}},
	} {
		p := newSleepDetector(start)
		for i, at := range row.beats {
			if got := p.awake(at); got != row.awake[i] {
				t.Errorf("%s: beat %d gives %v", name, i, got)
			}
		}
	}
}
