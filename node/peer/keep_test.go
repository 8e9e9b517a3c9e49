package peer

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/locusrun/locus/node/calls"
	"github.com/locusrun/locus/surfaces"
)

// The ended attempts that are kept are bounded in bytes. The latest one is kept, however
// large it is, for a caller that has not received its end.
func TestEndedAttemptsAreBounded(t *testing.T) {
	s := NewServer(ServerConfig{})
	ends := func(i, bytes int) {
		r := calls.NewRecord(fmt.Sprint("c", i), surfaces.Call{Actor: "a"}, func() {})
		r.Finish(surfaces.Result{Result: make(json.RawMessage, bytes)})
		key := attemptKey{callID: r.ID, number: 1}
		s.attempts[key], s.latest[r.ID] = &runningAttempt{record: r}, key
		s.retain(key)
	}
	kept := func() (list []int) {
		for i := range 10 {
			if s.Record("a", fmt.Sprint("c", i)) != nil {
				list = append(list, i)
			}
		}
		return list
	}
	for i := range 4 {
		ends(i, MaxEndedBytes/4)
	}
	if got, want := fmt.Sprint(kept()), "[1 2 3]"; got != want {
		t.Errorf("kept %s, want %s", got, want)
	}
	ends(4, 2*MaxEndedBytes)
	if got, want := fmt.Sprint(kept()), "[4]"; got != want {
		t.Errorf("kept %s, want %s", got, want)
	}
	ends(5, 0)
	if got, want := fmt.Sprint(kept()), "[5]"; got != want {
		t.Errorf("kept %s, want %s", got, want)
	}
}

// Where no more attempts end, those that have ended go by their age.
func TestEndedAttemptsGoByAgeOnAnIdleNode(t *testing.T) {
	s := NewServer(ServerConfig{})
	r := calls.NewRecord("c", surfaces.Call{Actor: "a"}, func() {})
	r.Finish(surfaces.Result{})
	key := attemptKey{callID: r.ID, number: 1}
	s.attempts[key], s.latest[r.ID] = &runningAttempt{record: r}, key
	s.retain(key)
	s.Sweep(time.Now().Add(EndedTTL - time.Minute))
	if s.Record("a", "c") == nil {
		t.Error("it was dropped too early")
	}
	s.Sweep(time.Now().Add(EndedTTL + time.Minute))
	if s.Record("a", "c") != nil || len(s.attempts)+len(s.latest)+len(s.ended)+s.bytes != 0 {
		t.Error("it is kept")
	}
}
