package peer

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"time"

	fastjson "github.com/segmentio/encoding/json"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/node/calls"
	"github.com/locusrun/locus/surfaces"
)

// The methods that a Server serves.
const (
	methodExecute = "calls/execute"
	methodFollow  = "calls/follow"
	methodWhole   = "calls/whole" // the output of a call that was not told in full
	methodAlive   = "calls/alive" // is the node there, and does it hold a call still?
)

// Bounds on what a server keeps of attempts that have ended.
const (
	// KeepEnded is how many ended attempts are kept for who has not heard of their
	// end, KeepBytes how much of what they said and gave, and KeepFor how long.
	KeepEnded = 1024
	KeepBytes = 256 << 20
	KeepFor   = 10 * time.Minute
)

// Route is what a request says about who is to serve it.
type Route struct {
	// Life is the life of this node that the asker knows.
	Life uint64
	// Session is nil for stateless calls.
	Session *surfaces.SessionRef
}

// ServerConfig says what a server needs. All fields but Mesh are required.
type ServerConfig struct {
	// Local runs the attempts.
	Local surfaces.Surface
	// Mine reports whether this node is the one that a route leads to. When it is
	// not, nothing is run and the asker looks again.
	Mine func(ctx context.Context, r Route) bool
	// Stop stops a running call.
	Stop func(callID string)
	// Standing tells whether a call is held still, because this node may not serve, and
	// what is left of its deadline: 0 for a call that does not run here, too.
	Standing func(callID string) (held bool, left time.Duration)
	// Grace tells how long a call goes on when the node that holds its record is gone.
	Grace func() time.Duration
	// Mesh leads to the nodes that hold the records of what runs here, which do what
	// its code asks of its host. With nil the code has no host.
	Mesh func() *mesh.Mesh
	// Uses gives the host of an actor's call whose record this node holds and which
	// runs on a node; nil when there is none.
	Uses func(node, actor, callID string) surfaces.Host
	// Find gives the record of a call of an actor that this node holds; nil when
	// there is none.
	Find func(actor, callID string) *calls.Record
	Log  *slog.Logger
}

// Server runs calls for other nodes. Its methods may be called at the same time.
type Server struct {
	cfg  ServerConfig
	ctx  context.Context // ends the attempts
	stop context.CancelCauseFunc
	work sync.WaitGroup

	mu       sync.Mutex
	attempts map[name]*running
	latest   map[string]name // by call id
	ended    []name          // oldest first
	bytes    int             // that those hold
}

// aliveAsk asks whether a node is there and how a call stands, and aliveAnswer says that it
// holds the call still, and what is left of its deadline.
type (
	aliveAsk struct {
		CallID string `json:"call_id"`
	}
	aliveAnswer struct {
		Held bool           `json:"held,omitempty"`
		Left *time.Duration `json:"left_ns,omitempty"` // nil from a release that does not tell
	}
)

// name is what an attempt is started once for. A call whose session is rebuilt
// before it could run there keeps its number: it is the epoch that is new.
type name struct {
	callID string
	number int
	epoch  uint64
}

// running is an attempt that runs here for another node, or has run.
type running struct {
	record  *calls.Record
	outcome surfaces.Outcome // once record is done
	cut     bool             // it was ended because this node is closing
	endedAt time.Time
	weight  int
}

// NewServer makes a server.
func NewServer(cfg ServerConfig) *Server {
	s := &Server{cfg: cfg, attempts: make(map[name]*running), latest: make(map[string]name)}
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	return s
}

var errClosing = errors.New("peer: the node is closing")

// Stop ends the attempts. Who asked for one that has not ended by itself is told nothing
// of its end, whoever else makes it end from now on: the mesh will say that this node is
// gone.
func (s *Server) Stop() {
	s.mu.Lock() // an attempt that is about to start is waited for as well
	s.stop(errClosing)
	s.mu.Unlock()
}

// Close stops the server and waits for the attempts' ends.
func (s *Server) Close() {
	s.Stop()
	s.work.Wait()
}

// Wait waits until the attempts that run now have ended, or ctx ends.
func (s *Server) Wait(ctx context.Context) {
	s.mu.Lock()
	var all []*calls.Record
	for _, r := range s.attempts {
		all = append(all, r.record)
	}
	s.mu.Unlock()
	for _, r := range all {
		select {
		case <-r.Done():
		case <-ctx.Done():
			return
		}
	}
}

// Methods gives what the server serves.
func (s *Server) Methods() map[string]mesh.Method {
	nodes := []certs.Role{certs.RoleNode}
	return map[string]mesh.Method{
		methodExecute: {Roles: nodes, Class: mesh.Data, Handle: s.execute},
		methodFollow:  {Roles: nodes, Class: mesh.Data, Handle: s.follow},
		methodHost:    {Roles: nodes, Class: mesh.Data, Handle: s.host},
		methodWhole:   Answers(mesh.Data, s.whole),
		methodAlive: Answers(mesh.Control, func(_ context.Context, _ certs.Identity, q aliveAsk) (aliveAnswer, error) {
			held, left := s.cfg.Standing(q.CallID)
			return aliveAnswer{Held: held, Left: &left}, nil
		}),
	}
}

// Record gives the record of an actor's call that runs or ran here for another
// node; nil when there is none.
func (s *Server) Record(actor, callID string) *calls.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.attempts[s.latest[callID]]; r != nil && r.record.Actor == actor {
		return r.record
	}
	return nil
}

// Late hands on output that came after an attempt's end.
func (s *Server) Late(callID string, p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.attempts[s.latest[callID]]; r != nil {
		r.record.Late(p)
	}
}

// execute starts an attempt, or finds it when it was started before, and tells
// what it says and how it ends.
func (s *Server) execute(ctx context.Context, st *mesh.Stream) error {
	request, err := receive(st)
	if err != nil {
		return err
	}
	head, rest, err := cutPart(request)
	if err != nil {
		return err
	}
	code, stdin, err := cutPart(rest)
	if err != nil {
		return err
	}
	var w attempt
	if err := fastjson.Unmarshal(head, &w); err != nil {
		return &mesh.Error{Code: codeMalformed, Message: err.Error()}
	}
	r, err := s.begin(ctx, st.Peer().ID, &w, string(code), string(stdin))
	if err != nil {
		return err
	}
	err = s.tell(ctx, st, r.record, w.From, func() (end, error) {
		if r.cut {
			return end{}, &mesh.Error{Code: codeClosing, Message: "this node is closing"}
		}
		return newEnd(r.outcome), nil
	})
	if err != nil && !r.record.Ended() {
		r.record.Abandon(s.cfg.Grace())
	}
	return err
}

// begin gives the attempt of a request. The same call id, number and epoch are run
// once, however often they are asked for.
func (s *Server) begin(ctx context.Context, home string, w *attempt, code, stdin string) (*running, error) {
	key := name{callID: w.CallID, number: w.Number}
	if w.Session != nil {
		key.epoch = w.Session.Epoch
	}
	if r := s.find(key); r != nil {
		return r, nil
	}
	if w.From != (calls.Mark{}) {
		return nil, &mesh.Error{Code: codeForgotten, Message: "the attempt is not known here any more"}
	}
	call := w.call(code, stdin)
	// Whoever asks is told by the deadline that the call has not been taken.
	looking, done := context.WithTimeout(ctx, w.Timeout)
	defer done()
	if !s.cfg.Mine(looking, Route{Life: w.Life, Session: call.Session}) {
		return nil, &mesh.Error{Code: codeMisrouted, Message: "this node does not own the session"}
	}
	r, err := s.start(w.Trace.Into(s.ctx), home, key, call, w.Timeout)
	runtime.Gosched() // lets the attempt run before its caller waits for what it says
	return r, err
}

// start begins an attempt under ctx, unless it has begun.
func (s *Server) start(ctx context.Context, home string, key name, call surfaces.Call, left time.Duration) (*running, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.attempts[key]; r != nil {
		return r, nil
	}
	if s.ctx.Err() != nil {
		return nil, &mesh.Error{Code: codeClosing, Message: "this node is closing"}
	}
	kept := call
	kept.Code, kept.Stdin = "", "" // nobody asks for them here, and there may be much of it
	r := &running{record: calls.NewRecord(key.callID, kept, func() { s.cfg.Stop(key.callID) })}
	s.attempts[key], s.latest[key.callID] = r, key
	s.work.Go(func() {
		a := surfaces.Attempt{Call: call, CallID: key.callID, Actor: call.Actor, Number: key.number, Left: left, Sink: r.record}
		out := s.hosting(ctx, home, a, s.cfg.Local.Execute)
		r.outcome, r.cut = out, s.ctx.Err() != nil
		r.record.Finish(out.Result)
		s.over(key)
	})
	return r, nil
}

// hosting runs an attempt with the node that holds its record as its host.
func (s *Server) hosting(ctx context.Context, home string, a surfaces.Attempt, execute func(context.Context, surfaces.Attempt) surfaces.Outcome) surfaces.Outcome {
	if s.cfg.Mesh == nil {
		return execute(ctx, a)
	}
	h := &farHost{
		ctx: s.ctx, mesh: s.cfg.Mesh(), home: home, attempt: hosted{a.CallID, a.Actor, a.Number}, log: s.cfg.Log,
		news: make(chan struct{}, 1),
	}
	defer h.close()
	a.Host = h
	return execute(ctx, a)
}

func (s *Server) find(key name) *running {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attempts[key]
}

// over notes that an attempt has ended and forgets the oldest ones.
func (s *Server) over(key name) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.attempts[key]; r != nil {
		r.endedAt, r.weight = now, r.record.Weight()
		s.bytes += r.weight
		s.ended = append(s.ended, key)
	}
	drop := 0
	for drop < len(s.ended) {
		r := s.attempts[s.ended[drop]]
		light := s.bytes <= KeepBytes || drop == len(s.ended)-1
		if len(s.ended)-drop <= KeepEnded && light && now.Sub(r.endedAt) < KeepFor {
			break
		}
		s.bytes -= r.weight
		gone := s.ended[drop]
		delete(s.attempts, gone)
		if s.latest[gone.callID] == gone {
			delete(s.latest, gone.callID)
		}
		drop++
	}
	clear(s.ended[:drop])
	s.ended = s.ended[drop:]
}

// followed names a call that this node holds, for another node to follow it.
type followed struct {
	Actor  string     `json:"actor"`
	CallID string     `json:"call_id"`
	From   calls.Mark `json:"from"`
}

// follow tells what a call says whose record is here.
func (s *Server) follow(ctx context.Context, st *mesh.Stream) error {
	var f followed
	if err := receiveJSON(st, &f); err != nil {
		return err
	}
	r := s.cfg.Find(f.Actor, f.CallID)
	if r == nil {
		return &mesh.Error{Code: codeForgotten, Message: "there is no such call here"}
	}
	return s.tell(ctx, st, r, f.From, func() (end, error) { return end{Result: r.Result()}, nil })
}

// wholly names a call, or with a number an attempt, whose output is asked for.
type wholly struct {
	Actor  string `json:"actor"`
	CallID string `json:"call_id"`
	Number int    `json:"number,omitempty"`
	Epoch  uint64 `json:"epoch,omitempty"`
}

// whole gives the result of a call or an attempt with its output, as this node has it.
func (s *Server) whole(_ context.Context, _ certs.Identity, q wholly) (surfaces.Result, error) {
	var r *calls.Record
	if q.Number == 0 {
		r = s.cfg.Find(q.Actor, q.CallID)
	} else if a := s.find(name{q.CallID, q.Number, q.Epoch}); a != nil && a.record.Actor == q.Actor {
		r = a.record
	}
	if r == nil {
		return surfaces.Result{}, &mesh.Error{Code: codeForgotten, Message: "there is no such call here"}
	}
	return r.Result(), nil
}

// tell sends what a record says from a mark on, and its end.
func (s *Server) tell(ctx context.Context, st *mesh.Stream, r *calls.Record, from calls.Mark, outcome func() (end, error)) error {
	return r.Feed(ctx, from, func(items []calls.Item, last bool) error {
		var message []byte
		var err error
		for _, it := range items {
			if message, err = appendItem(message, it); err != nil {
				return err
			}
		}
		if last {
			e, err := outcome()
			if err != nil {
				return err
			}
			e.Stdout, e.Stderr = r.Said(surfaces.StreamStdout), r.Said(surfaces.StreamStderr)
			e.Result.Stdout, e.Result.Stderr, e.Result.Truncated = "", "", nil
			if message, err = appendJSON(message, kindEnd, e); err != nil {
				return err
			}
		}
		if len(message) == 0 {
			return nil
		}
		return send(st, message)
	})
}

func appendJSON(message []byte, kind byte, v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return append(appendPart(message, 1+len(b), []byte{kind}), b...), nil
}
