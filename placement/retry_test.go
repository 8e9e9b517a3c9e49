package placement_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/locusrun/locus/placement"
	"github.com/locusrun/locus/surfaces"
)

func TestALostCallIsRetriedOnceAndTheLossReported(t *testing.T) {
	w := newWorld(t, once(true))
	res := w.run(stateful)
	if res.Status != surfaces.StatusDone || res.Attempts != 2 || res.StateLost.Loss == nil || !res.SessionCreated {
		t.Fatalf("got %+v, want Status %v, Attempts 2, a loss, SessionCreated", res, surfaces.StatusDone)
	}
	if w.local.seen[1].Call.Session.Epoch <= w.local.seen[0].Call.Session.Epoch {
		t.Fatal("the retry ran under the old epoch")
	}
	if res := w.run(stateful); res.StateLost.Loss != nil || res.Attempts != 1 {
		t.Fatalf("the next call was told again: %+v", res)
	}
}

func TestOnLoss(t *testing.T) {
	for _, c := range []struct {
		onLoss     string
		mayHaveRun bool
		attempts   int
	}{
		{"retry", true, 2}, {"retry", false, 2},
		{"not_started", true, 1}, {"not_started", false, 2},
		{"report", true, 1}, {"report", false, 1},
	} {
		t.Run(fmt.Sprint(c.onLoss, c.mayHaveRun), func(t *testing.T) {
			w := newWorld(t, once(c.mayHaveRun))
			res := w.run(with(stateful, "on_loss", c.onLoss))
			if w.local.attempts() != c.attempts || res.Attempts != c.attempts {
				t.Fatalf("got %d attempts, told %d, want %d", w.local.attempts(), res.Attempts, c.attempts)
			}
			if c.attempts == 1 {
				if *res.Code != surfaces.CodeKilled {
					t.Fatalf("got %+v, want Code %v", res, surfaces.CodeKilled)
				}
				// Whoever reaches the rebuilt session first is told.
				if next := w.run(stateful); next.StateLost.Loss == nil {
					t.Fatal("the first call to the rebuilt session was not told")
				}
			}
		})
	}
}

func TestAtMostOneRetry(t *testing.T) {
	w := newWorld(t, func(a surfaces.Attempt) surfaces.Outcome { return died(a, true) })
	res := w.run(stateful)
	if w.local.attempts() != 2 || res.Attempts != 2 || *res.Code != surfaces.CodeKilled {
		t.Fatalf("got %d attempts: %+v", w.local.attempts(), res)
	}
	w = newWorld(t, func(a surfaces.Attempt) surfaces.Outcome { return died(a, true) })
	if w.run(map[string]any{"code": "x", "language": "python"}); w.local.attempts() != 2 {
		t.Fatalf("a stateless call got %d attempts", w.local.attempts())
	}
}

// If the retry is refused, the result is the loss of the first attempt, which may have run.
func TestARetryThatCannotBePlacedReportsTheLoss(t *testing.T) {
	for name, second := range map[string]surfaces.Outcome{
		"refused": {Result: (&surfaces.Refusal{Code: surfaces.CodeNoCapacity, Message: "nothing ran"}).Result(surfaces.Partial{})},
	} {
		t.Run(name, func(t *testing.T) {
			lose := once(true)
			w := newWorld(t, func(a surfaces.Attempt) surfaces.Outcome {
				if out := lose(a); out.Loss != nil {
					return out
				}
				return second
			})
			res := w.run(stateful)
			if *res.Code != surfaces.CodeKilled || res.Status != surfaces.StatusFailed || res.Attempts != 1 {
				t.Fatalf("got %+v, want Code %v, Status %v, Attempts 1", res, surfaces.CodeKilled, surfaces.StatusFailed)
			}
		})
	}
}

// No retry is made if placing it used up the deadline.
func TestARetryWithoutTimeIsNotMade(t *testing.T) {
	w := newWorld(t, func(a surfaces.Attempt) surfaces.Outcome {
		if a.Remaining <= 0 {
			t.Errorf("attempt %d has %s", a.Number, a.Remaining)
		}
		time.Sleep(a.Call.Timeout + time.Millisecond)
		return died(a, true)
	})
	if res := w.run(with(stateful, "timeout_s", 2)); w.local.attempts() != 1 || res.Attempts != 1 {
		t.Fatalf("%d attempts: %+v", w.local.attempts(), res)
	}
}

// The deadline of a call counts from its arrival: the time that placing takes is not added for
// its code. Messages still quote the timeout that the caller gave.
func TestTheDeadlineCountsFromTheArrival(t *testing.T) {
	const timeout, spent = time.Minute, 200 * time.Millisecond
	var w *world
	w = newWorld(t, func(a surfaces.Attempt) surfaces.Outcome {
		if left := timeout - time.Duration(w.local.attempts())*spent; a.Limit() > left || a.Call.Timeout != timeout {
			t.Errorf("attempt %d has %s of %s, where no more than %s is left", w.local.attempts(), a.Limit(), a.Call.Timeout, left)
		}
		if w.local.attempts() == 1 {
			time.Sleep(spent)
			return surfaces.Outcome{Misrouted: true}
		}
		return done(a)
	})
	resolve := func() (surfaces.Call, *surfaces.Refusal) {
		return surfaces.Resolve([]byte(`{"code": "x", "language": "python", "timeout_s": 60}`), w.view())
	}
	call, refusal := resolve()
	if refusal != nil {
		t.Fatal(refusal)
	}
	res := w.place.Execute(t.Context(), placement.Job{CallID: "c", Arrived: time.Now().Add(-spent), Call: call, Resolve: resolve})
	if res.Status != surfaces.StatusDone || w.local.attempts() != 2 || res.DurationMS < 2*float64(spent.Milliseconds()) {
		t.Fatalf("%d attempts: %+v", w.local.attempts(), res)
	}
}

// A call that lost its first attempt reports it, even if another call was told of the session's
// loss before.
func TestASecondAttemptReportsTheLoss(t *testing.T) {
	var w *world
	lose := once(true)
	w = newWorld(t, func(a surfaces.Attempt) surfaces.Outcome {
		out := lose(a)
		if out.Loss != nil {
			out.Result.StateLost = surfaces.StateLost{Loss: &surfaces.Loss{Reason: out.Loss.Reason, Epoch: out.Loss.Epoch}}
		} else if a.Number == 2 {
			// Some other call comes first.
			w.run(stateful)
		}
		return out
	})
	if res := w.run(stateful); res.Attempts != 2 || res.StateLost.Loss == nil {
		t.Fatalf("got %+v, want Attempts 2, a loss", res)
	}
}

func TestReadOnlyIsNeverServedFromAnEmptySession(t *testing.T) {
	lose := false
	w := newWorld(t, func(a surfaces.Attempt) surfaces.Outcome {
		if lose {
			return died(a, false)
		}
		return done(a)
	})
	w.run(stateful)
	lose = true
	readOnly := with(stateful, "state_mode", "read_only")
	if res := w.run(readOnly); w.local.attempts() != 2 || res.Status != surfaces.StatusFailed {
		t.Fatalf("a lost read was tried again: %+v", res)
	}
	lose = false
	res := w.run(readOnly)
	if w.local.attempts() != 2 || *res.Code != surfaces.CodeSessionLost || res.StateLost.Loss == nil {
		t.Fatalf("got %+v after %d attempts", res, w.local.attempts())
	}
	if res := w.run(stateful); res.Status != surfaces.StatusDone || res.StateLost.Loss == nil {
		t.Fatalf("got %+v, want Status %v, a loss", res, surfaces.StatusDone)
	}
	if res := w.run(readOnly); res.Status != surfaces.StatusDone || res.StateLost.Loss != nil {
		t.Fatalf("got %+v, want Status %v, no loss", res, surfaces.StatusDone)
	}
}

func TestAnAlreadyLostSessionCostsNoAttempt(t *testing.T) {
	gone := map[uint64]bool{}
	w := newWorld(t, func(a surfaces.Attempt) surfaces.Outcome {
		if gone[a.Call.Session.Epoch] {
			out := died(a, false)
			out.Loss.Before = true
			return out
		}
		return done(a)
	})
	w.run(stateful)
	gone[w.local.seen[0].Call.Session.Epoch] = true
	for _, onLoss := range surfaces.OnLosses() {
		res := w.run(with(stateful, "on_loss", string(onLoss)))
		if res.Status != surfaces.StatusDone || res.Attempts != 1 || res.StateLost.Loss == nil {
			t.Fatalf("on_loss %s: got %+v, want Status %v, Attempts 1, a loss", onLoss, res, surfaces.StatusDone)
		}
		gone[uint64(w.reg.View().SessionsOf("a")[0].Epoch)] = true
	}
}
