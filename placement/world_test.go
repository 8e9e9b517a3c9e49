package placement_test

import (
	"context"
	"encoding/json"
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
