package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// fake is a Service of functions; what a test does not set has a plain answer.
// Its law is that of surfaces; its calls are scripted by their code.
type fake struct {
	mu    sync.Mutex
	calls map[string]*fakeCall
	n     int

	status  func() StatusInfo
	refuse  error // of the tools other than execute_code
	onStart func(*fakeCall)
	live    func(context.Context) error
	ready   func(context.Context) error
	events  func(context.Context, func(MeshEvent) error) error
	after   Cursor     // of the last who followed events
	query   AuditQuery // of the last who asked for the audit logs
	actors  error
}

func newFake() *fake { return &fake{calls: make(map[string]*fakeCall)} }

func (f *fake) Authenticate(_ context.Context, token string) (Caller, error) {
	switch token {
	case "alice", "bob":
		return Caller{Actor: token}, nil
	case "operator":
		return Caller{Actor: token, Operator: true}, nil
	case "broken":
		return Caller{}, fmt.Errorf("the secret store is on fire")
	}
	return Caller{}, &surfaces.Refusal{Code: surfaces.CodeUnauthenticated, Message: "the token is not known"}
}

func (f *fake) Start(_ context.Context, who Caller, body []byte) Execution {
	f.mu.Lock()
	f.n++
	c := &fakeCall{id: fmt.Sprintf("call-%d", f.n), actor: who.Actor, done: make(chan struct{}), changed: make(chan struct{})}
	f.calls[c.id] = c
	f.mu.Unlock()
	call, refusal := surfaces.Resolve(body, surfaces.View{Actor: who.Actor, Languages: surfaces.Languages()})
	if refusal != nil {
		c.end(refusal.Result(surfaces.Partial{CallID: c.id, Node: "n1"}))
		return c
	}
	c.code, c.background = call.Code, call.Background
	call.Coordinates().Into(&c.result)
	c.result.CallID, c.result.Node, c.result.Status, c.result.Attempts = c.id, "n1", surfaces.StatusRunning, 1
	c.say("started", fmt.Sprintf(`{"call_id":%q,"node":"n1"}`, c.id), 0)
	switch {
	case strings.HasPrefix(c.code, "panic"):
		panic("the fake was told to")
	case strings.HasPrefix(c.code, "code="):
		r := c.Result()
		r.Fail(surfaces.Code(strings.TrimPrefix(c.code, "code=")), "as the program wished")
		c.end(r)
	case strings.HasPrefix(c.code, "reused"):
		c.end(surfaces.KeyReused("k").Result(surfaces.Partial{CallID: c.id}))
	case f.onStart != nil:
		f.onStart(c)
	default:
		c.finish()
	}
	return c
}

func (f *fake) Execution(_ context.Context, who Caller, id string) (Execution, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c, ok := f.calls[id]; ok && c.actor == who.Actor {
		return c, nil
	}
	return nil, nil
}

func (f *fake) Executions(_ context.Context, who Caller) []CallSummary {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []CallSummary
	for _, c := range f.calls {
		if c.actor == who.Actor {
			list = append(list, CallSummary{CallID: c.id, Status: surfaces.StatusDone, Language: surfaces.Python, StateMode: surfaces.Stateless, StartedAt: time.Now()})
		}
	}
	return list
}

func (f *fake) ListSessions(context.Context, Caller, []byte) (SessionList, error) {
	return SessionList{Limit: 20}, f.refuse
}

func (f *fake) InspectState(context.Context, Caller, []byte) (Inspection, error) {
	return Inspection{Session: session(), State: json.RawMessage(`{"variables":[],"functions":[],"modules":[]}`)}, f.refuse
}

func (f *fake) CloseSession(context.Context, Caller, []byte) (Closed, error) {
	return Closed{Closed: true, Reason: "success"}, f.refuse
}

func (f *fake) ResetSession(context.Context, Caller, []byte) (SessionInfo, error) {
	return session(), f.refuse
}

func (f *fake) ForkSession(context.Context, Caller, []byte) (SessionInfo, error) {
	return session(), f.refuse
}

func session() SessionInfo {
	return SessionInfo{Language: surfaces.Python, SessionID: 1, Node: "n1", State: "live", Epoch: 1,
		StateLost: surfaces.StateLost{Loss: &surfaces.Loss{Reason: "killed", At: "2026-01-01T00:00:00Z", Epoch: 1}}}
}

func (f *fake) Status(context.Context, Caller) StatusInfo {
	if f.status != nil {
		return f.status()
	}
	return StatusInfo{Node: "n1", Sessions: map[string]int{"live": 3, "unreachable": 1}, Running: 2, Nodes: 1}
}

func (f *fake) Nodes(context.Context) []NodeInfo { return []NodeInfo{{ID: "n1", State: "alive"}} }

func (f *fake) CreateActor(_ context.Context, who Caller, want NewActor) (ActorInfo, error) {
	if !who.Operator {
		return ActorInfo{}, &surfaces.Refusal{Code: surfaces.CodeForbidden, Message: "only operators make actors"}
	}
	return ActorInfo{Name: want.Name, Token: "secret"}, f.actors
}

func (f *fake) Actors(context.Context, Caller) ([]ActorInfo, error) { return nil, f.actors }

func (f *fake) EndActor(_ context.Context, _ Caller, name string) (ActorInfo, error) {
	if name != "alice" {
		return ActorInfo{}, &surfaces.Refusal{Code: surfaces.CodeInvalidArgument, Message: "there is no such actor"}
	}
	now := time.Now()
	return ActorInfo{Name: name, EndedAt: &now}, f.actors
}

func (f *fake) Events(_ Caller, after Cursor) (Stream[MeshEvent], error) {
	f.mu.Lock()
	f.after = after
	f.mu.Unlock()
	if f.events != nil {
		return f.events, f.refuse
	}
	return func(ctx context.Context, _ func(MeshEvent) error) error {
		<-ctx.Done()
		return ctx.Err()
	}, f.refuse
}

func (f *fake) Live(ctx context.Context) error {
	if f.live != nil {
		return f.live(ctx)
	}
	return nil
}

func (f *fake) Ready(ctx context.Context) error {
	if f.ready != nil {
		return f.ready(ctx)
	}
	return nil
}

// serve puts a door on loopback before a fake.
func serve(t *testing.T, f *fake, adjust func(*Config)) (*Gateway, *httptest.Server) {
	t.Helper()
	cfg := Config{Service: f, Version: "test"}
	if adjust != nil {
		adjust(&cfg)
	}
	g := New(cfg)
	srv := httptest.NewServer(g)
	t.Cleanup(func() {
		g.Close()
		f.mu.Lock()
		calls := f.calls
		f.mu.Unlock()
		for _, c := range calls {
			c.Abandon(0)
			c.finish()
		}
		srv.CloseClientConnections()
		srv.Close()
	})
	return g, srv
}

// request makes a request of alice; edit changes it.
func request(t *testing.T, method, url, body string, edit ...func(*http.Request)) *http.Request {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer alice")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, e := range edit {
		e(r)
	}
	return r
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) {
		if value == "" {
			r.Header.Del(name)
			return
		}
		r.Header.Set(name, value)
	}
}

var streaming = header("Accept", "text/event-stream")
