package placement_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/locusrun/locus/placement"
	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

func TestTwoCallersMakeOneSession(t *testing.T) {
	w := newWorld(t, done)
	var all sync.WaitGroup
	created := make(chan bool, 16)
	for range cap(created) {
		all.Go(func() {
			res := w.run(stateful)
			if res.Status != surfaces.StatusDone {
				t.Errorf("got %+v, want Status %v", res, surfaces.StatusDone)
			}
			created <- res.SessionCreated
		})
	}
	all.Wait()
	close(created)
	n := 0
	for c := range created {
		if c {
			n++
		}
	}
	if sessions := w.reg.View().SessionsOf("a"); n != 1 || len(sessions) != 1 {
		t.Fatalf("%d calls made %d sessions", n, len(sessions))
	}
}

func TestTwoNamesMadeAtOnceGetTwoIDs(t *testing.T) {
	w := newWorld(t, done)
	var all sync.WaitGroup
	for i := range surfaces.MaxSessions {
		all.Go(func() {
			if res := w.run(with(stateful, "session_name", fmt.Sprint("s", i))); res.Status != surfaces.StatusDone || !res.SessionCreated {
				t.Errorf("got %+v, want Status %v, SessionCreated", res, surfaces.StatusDone)
			}
		})
	}
	all.Wait()
	if n := len(w.reg.View().SessionsOf("a")); n != surfaces.MaxSessions {
		t.Fatalf("%d sessions", n)
	}
}

// Of several calls that concurrently create the last allowed session, one succeeds and the
// others are refused by validation.
func TestTheLastSessionSlotGoesToOneCall(t *testing.T) {
	w := newWorld(t, done)
	for i := range surfaces.MaxSessions - 1 {
		w.run(with(stateful, "session_name", fmt.Sprint("s", i)))
	}
	var all sync.WaitGroup
	results := make(chan surfaces.Result, 8)
	for i := range cap(results) {
		all.Go(func() {
			body := with(stateful, "session_name", fmt.Sprint("last", i))
			raw, _ := json.Marshal(body)
			resolve := func() (surfaces.Call, *surfaces.Refusal) { return surfaces.Resolve(raw, w.view()) }
			call, refusal := resolve()
			if refusal != nil {
				results <- refusal.Result(surfaces.Partial{})
				return
			}
			results <- w.place.Execute(t.Context(), placement.Job{CallID: "c", Call: call, Resolve: resolve})
		})
	}
	all.Wait()
	close(results)
	won := 0
	for res := range results {
		switch {
		case res.Status == surfaces.StatusDone:
			won++
		case *res.Code != surfaces.CodeSessionLimit:
			t.Errorf("got %+v", res)
		}
	}
	if won != 1 {
		t.Fatalf("%d calls got the last place", won)
	}
}

// A misrouted call is routed again until its deadline, and does not count as run.
func TestMisroutedCallsAreRoutedAgain(t *testing.T) {
	turns := 0
	w := newWorld(t, func(a surfaces.Attempt) surfaces.Outcome {
		if turns++; turns <= 3 {
			return surfaces.Outcome{Misrouted: true}
		}
		return done(a)
	})
	if res := w.run(stateful); res.Status != surfaces.StatusDone || res.Attempts != 1 || turns != 4 {
		t.Fatalf("got %+v after %d turns", res, turns)
	}
	w = newWorld(t, func(surfaces.Attempt) surfaces.Outcome { return surfaces.Outcome{Misrouted: true} })
	res := w.run(with(stateful, "timeout_s", 1))
	if *res.Code != surfaces.CodeOwnerUnreachable || res.Attempts != 0 {
		t.Fatalf("got %+v, want Code %v, Attempts 0", res, surfaces.CodeOwnerUnreachable)
	}
}

// A call that the node refuses was not started, and is not counted as an attempt.
func TestARefusalIsNotCountedAsAnAttempt(t *testing.T) {
	w := newWorld(t, func(surfaces.Attempt) surfaces.Outcome {
		return surfaces.Outcome{Result: (&surfaces.Refusal{Code: surfaces.CodeNoCapacity, Message: "full"}).Result(surfaces.Partial{Attempts: 1})}
	})
	for _, call := range []map[string]any{stateful, with(stateful, "state_mode", "stateless", "session_name", nil)} {
		if res := w.run(call); res.Status != surfaces.StatusRefused || res.Attempts != 0 {
			t.Errorf("got %+v, want Status %v, Attempts 0", res, surfaces.StatusRefused)
		}
	}
}

// If its session is closed meanwhile, a read-only call fails and a stateful call creates a new
// one.
func TestASessionClosedDuringACall(t *testing.T) {
	for _, mode := range []string{"read_only", "stateful"} {
		var w *world
		turns := 0
		w = newWorld(t, func(a surfaces.Attempt) surfaces.Outcome {
			if turns++; turns != 2 {
				return done(a)
			}
			if _, err := w.reg.CloseSession(t.Context(), registry.CloseSession{Key: a.Call.Session.Key}); err != nil {
				t.Error(err)
			}
			return surfaces.Outcome{Misrouted: true}
		})
		w.run(stateful)
		res := w.run(with(stateful, "state_mode", mode))
		switch {
		case mode == "read_only" && (res.Code == nil || *res.Code != surfaces.CodeSessionNotFound || turns != 2):
			t.Fatalf("a reader got %+v", res)
		case mode == "stateful" && (res.Status != surfaces.StatusDone || !res.SessionCreated || turns != 3):
			t.Fatalf("a writer got %+v", res)
		}
	}
}

// The hot path costs no registry operation.
func TestAKnownSessionCostsNoCommand(t *testing.T) {
	w := newWorld(t, done)
	w.run(stateful)
	before := w.reg.View().Index()
	for range 10 {
		w.run(stateful)
		w.run(with(stateful, "state_mode", "read_only"))
	}
	if after := w.reg.View().Index(); after != before {
		t.Fatalf("%d commands for 20 calls", after-before)
	}
}
