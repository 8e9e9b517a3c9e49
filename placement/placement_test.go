package placement_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/locusrun/locus/placement"
	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

// local is a surface whose outcomes a test scripts.
type local struct {
	mu    sync.Mutex
	seen  []surfaces.Attempt
	serve func(a surfaces.Attempt) surfaces.Outcome
}

func (l *local) Execute(_ context.Context, a surfaces.Attempt) surfaces.Outcome {
	l.mu.Lock()
	l.seen = append(l.seen, a)
	l.mu.Unlock()
	return l.serve(a)
}

func (l *local) attempts() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.seen)
}

type world struct {
	t     *testing.T
	reg   *registry.Registry
	place *placement.Placement
	local *local
}

func newWorld(t *testing.T, serve func(surfaces.Attempt) surfaces.Outcome) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	reg, err := registry.Open(ctx, registry.Config{Dir: t.TempDir(), NodeID: "n"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reg.Close() })
	node, err := reg.RegisterNode(ctx, registry.RegisterNode{ID: "n", Languages: []string{"python", "bash"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reg.CreateActor(ctx, registry.CreateActor{Name: "a", ID: "1"}); err != nil {
		t.Fatal(err)
	}
	l := &local{serve: serve}
	return &world{t: t, reg: reg, local: l, place: placement.New(placement.Config{
		Registry: reg, Node: "n", Load: func(registry.NodeID) registry.Load { return registry.Load{} }, Log: slog.New(slog.DiscardHandler),
		At: func(id registry.NodeID, life registry.Incarnation) surfaces.Surface {
			if id != "n" || life != node.Incarnation {
				t.Errorf("a call was routed to node %s, life %d", id, life)
			}
			return l
		},
	})}
}

func (w *world) view() surfaces.View {
	v := surfaces.View{Actor: "a", Languages: surfaces.Languages()}
	for _, s := range w.reg.View().SessionsOf("a") {
		v.Sessions = append(v.Sessions, surfaces.SessionItem{Key: s.Key, Name: s.Name, State: surfaces.SessionState(s.State), Epoch: uint64(s.Epoch), Counts: s.Counted()})
	}
	return v
}

func (w *world) run(args map[string]any) surfaces.Result {
	w.t.Helper()
	body, err := json.Marshal(args)
	if err != nil {
		w.t.Fatal(err)
	}
	resolve := func() (surfaces.Call, *surfaces.Refusal) { return surfaces.Resolve(body, w.view()) }
	call, refusal := resolve()
	if refusal != nil {
		w.t.Fatal(refusal)
	}
	return w.place.Execute(w.t.Context(), placement.Job{CallID: "c", Call: call, Resolve: resolve})
}

func done(a surfaces.Attempt) surfaces.Outcome {
	return surfaces.Outcome{Result: surfaces.Result{Status: surfaces.StatusDone, Attempts: a.Number}}
}

func died(a surfaces.Attempt, mayHaveRun bool) surfaces.Outcome {
	out := surfaces.Outcome{Result: surfaces.Failed(surfaces.Partial{}, surfaces.CodeKilled, "died")}
	out.Loss = &surfaces.LostAttempt{MayHaveRun: mayHaveRun, Reason: "process_died", At: time.Now()}
	if a.Call.Session != nil {
		out.Loss.Epoch = a.Call.Session.Epoch
	}
	return out
}

// once loses the first attempt and serves the others.
func once(mayHaveRun bool) func(surfaces.Attempt) surfaces.Outcome {
	var mu sync.Mutex
	lost := false
	return func(a surfaces.Attempt) surfaces.Outcome {
		mu.Lock()
		defer mu.Unlock()
		if !lost {
			lost = true
			return died(a, mayHaveRun)
		}
		return done(a)
	}
}

var stateful = map[string]any{"code": "x", "language": "python", "state_mode": "stateful", "session_name": "s"}

func with(args map[string]any, more ...any) map[string]any {
	m := map[string]any{}
	for k, v := range args {
		m[k] = v
	}
	for i := 0; i < len(more); i += 2 {
		m[more[i].(string)] = more[i+1]
	}
	return m
}

func TestALostCallIsRetriedOnceAndTold(t *testing.T) {
	w := newWorld(t, once(true))
	res := w.run(stateful)
	if res.Status != surfaces.StatusDone || res.Attempts != 2 || res.StateLost.Loss == nil || !res.SessionCreated {
		t.Fatalf("got %+v", res)
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
					t.Fatalf("got %+v", res)
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

// What is told when the second attempt comes to nothing is the loss of the first,
// which may have run.
func TestARetryThatCannotBeMadeTellsOfTheLoss(t *testing.T) {
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
				t.Fatalf("got %+v", res)
			}
		})
	}
}

// A retry whose placing took all the time that the call had is not made.
func TestARetryWithoutTimeIsNotMade(t *testing.T) {
	w := newWorld(t, func(a surfaces.Attempt) surfaces.Outcome {
		if a.Left <= 0 {
			t.Errorf("attempt %d has %s", a.Number, a.Left)
		}
		time.Sleep(a.Call.Timeout + time.Millisecond)
		return died(a, true)
	})
	if res := w.run(with(stateful, "timeout_s", 2)); w.local.attempts() != 1 || res.Attempts != 1 {
		t.Fatalf("%d attempts: %+v", w.local.attempts(), res)
	}
}

// The deadline of a call counts from its arrival: what its placing takes is not given to
// its code once more. What the caller gave is quoted all the same.
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

// A call that lost its first attempt says so, also when another call was told of the
// session's loss before.
func TestASecondAttemptSpeaksOfTheLoss(t *testing.T) {
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
		t.Fatalf("got %+v", res)
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
		t.Fatalf("got %+v", res)
	}
	if res := w.run(readOnly); res.Status != surfaces.StatusDone || res.StateLost.Loss != nil {
		t.Fatalf("got %+v", res)
	}
}

func TestASessionThatWasGoneBeforeCostsNoAttempt(t *testing.T) {
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
			t.Fatalf("on_loss %s: got %+v", onLoss, res)
		}
		gone[uint64(w.reg.View().SessionsOf("a")[0].Epoch)] = true
	}
}

func TestTwoCallersMakeOneSession(t *testing.T) {
	w := newWorld(t, done)
	var all sync.WaitGroup
	created := make(chan bool, 16)
	for range cap(created) {
		all.Go(func() {
			res := w.run(stateful)
			if res.Status != surfaces.StatusDone {
				t.Errorf("got %+v", res)
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
				t.Errorf("got %+v", res)
			}
		})
	}
	all.Wait()
	if n := len(w.reg.View().SessionsOf("a")); n != surfaces.MaxSessions {
		t.Fatalf("%d sessions", n)
	}
}

// Two callers that make the 20th and the 21st session at once: one gets it, the
// other is refused by the validation rules.
func TestTheLastPlaceGoesToOne(t *testing.T) {
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

// A place that turns a call back is looked at again until the call's deadline, and
// nothing is said to have run.
func TestAPlaceThatTurnsBack(t *testing.T) {
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
		t.Fatalf("got %+v", res)
	}
}

// What a place refuses was not started, and is not counted as an attempt.
func TestARefusedAttemptIsNone(t *testing.T) {
	w := newWorld(t, func(surfaces.Attempt) surfaces.Outcome {
		return surfaces.Outcome{Result: (&surfaces.Refusal{Code: surfaces.CodeNoCapacity, Message: "full"}).Result(surfaces.Partial{Attempts: 1})}
	})
	for _, call := range []map[string]any{stateful, with(stateful, "state_mode", "stateless", "session_name", nil)} {
		if res := w.run(call); res.Status != surfaces.StatusRefused || res.Attempts != 0 {
			t.Errorf("got %+v", res)
		}
	}
}

// A session that is closed under a call is gone for who only reads, and made anew
// for who writes.
func TestASessionThatIsClosedUnderACall(t *testing.T) {
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
