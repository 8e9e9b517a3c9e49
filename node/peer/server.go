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
	methodWhole   = "calls/whole" // the output of a call, if some of it was skipped
	methodAlive   = "calls/alive" // is the node alive, and how does a call stand?
)

// Bounds on the ended attempts that a server keeps.
const (
	// MaxEnded bounds the number of ended attempts that are kept for a caller that has not
	// received their result yet, MaxEndedBytes the size of their output and results, and
	// EndedTTL the time.
	MaxEnded      = 1024
	MaxEndedBytes = 256 << 20
	EndedTTL      = 10 * time.Minute
)

// Route says which node a request is meant for.
type Route struct {
	// Incarnation is that of this node (one run of its process) that the caller knows.
	Incarnation uint64
	// Session is nil for stateless calls.
	Session *surfaces.SessionRef
}

// ServerConfig configures a Server. All fields but Mesh are required.
type ServerConfig struct {
	// Local runs the attempts.
	Local surfaces.Surface
	// IsLocal reports whether a route leads to this node. If not, nothing runs, and the caller
	// looks the owner up again.
	IsLocal func(ctx context.Context, r Route) bool
	// Stop stops a running call.
	Stop func(callID string)
	// CallState returns whether a call is suspended because this node may not serve, and the
	// remaining time until its deadline: 0 also for a call that does not run here.
	CallState func(callID string) (held bool, left time.Duration)
	// Grace returns how long a call goes on after the connection to its home is lost.
	Grace func() time.Duration
	// Mesh returns the mesh by which the code of an attempt reaches its host on the call's
	// home. If Mesh is nil the code has no host.
	Mesh func() *mesh.Mesh
	// HostOf returns the host of a call whose record this node holds and which runs on
	// another node; nil if there is none.
	HostOf func(node, actor, callID string) surfaces.Host
	// ActorID returns the id of the actor that has a name now; empty if this node does not know
	// it yet. May be nil.
	ActorID func(name string) string
	// Find returns the record of an actor's call that this node holds; nil if there is
	// none.
	Find func(actor, callID string) *calls.Record
	Log  *slog.Logger
}

// Server runs calls for other nodes. Its methods are safe for concurrent use.
type Server struct {
	cfg  ServerConfig
	ctx  context.Context // ends the attempts
	stop context.CancelCauseFunc
	work sync.WaitGroup

	mu       sync.Mutex
	attempts map[attemptKey]*runningAttempt // those that run, and ended ones that may still be asked for
	latest   map[string]attemptKey          // by call id
	ended    []attemptKey                   // oldest first
	bytes    int                            // size of the ended attempts
}

// aliveAsk asks how a call stands on a node. aliveAnswer says whether the node has
// suspended the call, and the remaining time until its deadline; with an actor also whether
// its record there has ended.
type (
	aliveAsk struct {
		CallID string `json:"call_id"`
		Actor  string `json:"actor,omitempty"`
	}
	aliveAnswer struct {
		Held      bool           `json:"held,omitempty"`
		Remaining *time.Duration `json:"left_ns,omitempty"` // nil from a release that does not send it
		Ended     bool           `json:"ended,omitempty"`
	}
)

// attemptKey identifies an attempt; each is started once. An attempt whose session is
// rebuilt before it could start keeps its number and gets a new epoch.
type attemptKey struct {
	callID string
	number int
	epoch  uint64
}

// runningAttempt is an attempt that runs here, or has run, for another node.
type runningAttempt struct {
	record  *calls.Record
	outcome surfaces.Outcome // valid once record is done
	cut     bool             // it was ended because this node closes
	endedAt time.Time
	weight  int // bytes of memory once it has ended; see calls.Record.Size
}

// NewServer returns a server.
func NewServer(cfg ServerConfig) *Server {
	s := &Server{cfg: cfg, attempts: make(map[attemptKey]*runningAttempt), latest: make(map[string]attemptKey)}
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	return s
}

var errClosing = errors.New("peer: the node is closing")

// Stop ends the attempts. Their callers are not told how attempts end from now on, because
// the reason may be that this node closes: they learn from the mesh that the node is gone.
func (s *Server) Stop() {
	s.mu.Lock() // so that an attempt which is about to start is stopped as well
	s.stop(errClosing)
	s.mu.Unlock()
}

// Close stops the server and waits for its attempts to end.
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

// Methods returns the methods that the server serves.
func (s *Server) Methods() map[string]mesh.Method {
	nodes := []certs.Role{certs.RoleNode}
	return map[string]mesh.Method{
		methodExecute: {Roles: nodes, Class: mesh.Data, Handle: s.execute},
		methodFollow:  {Roles: nodes, Class: mesh.Data, Handle: s.follow},
		methodHost:    {Roles: nodes, Class: mesh.Data, Handle: s.host},
		methodWhole:   JSONMethod(mesh.Data, s.whole),
		methodAlive: JSONMethod(mesh.Control, func(_ context.Context, _ certs.Identity, q aliveAsk) (aliveAnswer, error) {
			held, left := s.cfg.CallState(q.CallID)
			a := aliveAnswer{Held: held, Remaining: &left}
			if q.Actor != "" {
				r := s.cfg.Find(q.Actor, q.CallID)
				a.Ended = r != nil && r.Ended()
			}
			return a, nil
		}),
	}
}

// Record returns the record of an actor's call that runs or ran here for another node; nil
// if there is none.
func (s *Server) Record(actor, callID string) *calls.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.attempts[s.latest[callID]]; r != nil && r.record.Actor == actor {
		return r.record
	}
	return nil
}

// Late passes on output that came after an attempt's end.
func (s *Server) Late(callID string, p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.attempts[s.latest[callID]]; r != nil {
		r.record.Late(p)
	}
}

// execute starts an attempt, or finds one that was started before, and streams its output,
// events and result.
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
	err = s.stream(ctx, st, r.record, w.From, func() (end, error) {
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

// begin returns the attempt of a request. An attempt is started once for a call id, number
// and epoch, however often it is requested.
func (s *Server) begin(ctx context.Context, home string, w *attempt, code, stdin string) (*runningAttempt, error) {
	key := attemptKey{callID: w.CallID, number: w.Number}
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
	// The caller must learn by the deadline that the call has not started.
	asked := time.Now()
	looking, done := context.WithTimeout(ctx, w.Timeout)
	defer done()
	if !s.cfg.IsLocal(looking, Route{Incarnation: w.Life, Session: call.Session}) {
		return nil, &mesh.Error{Code: codeMisrouted, Message: "this node does not own the session"}
	}
	r, err := s.start(w.Trace.Extract(s.ctx), home, key, call, max(w.Timeout-time.Since(asked), 1))
	runtime.Gosched() // lets the attempt run before its stream is served
	return r, err
}

// start starts an attempt under ctx, unless it was started before.
func (s *Server) start(ctx context.Context, home string, key attemptKey, call surfaces.Call, remaining time.Duration) (*runningAttempt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.attempts[key]; r != nil {
		return r, nil
	}
	if s.ctx.Err() != nil {
		return nil, &mesh.Error{Code: codeClosing, Message: "this node is closing"}
	}
	kept := call
	kept.Code, kept.Stdin = "", "" // not needed here, and perhaps large
	if s.cfg.ActorID != nil {
		kept.ActorID = s.cfg.ActorID(call.Actor)
	}
	r := &runningAttempt{record: calls.NewRecord(key.callID, kept, func() { s.cfg.Stop(key.callID) })}
	s.attempts[key], s.latest[key.callID] = r, key
	s.work.Go(func() {
		a := surfaces.Attempt{Call: call, CallID: key.callID, Actor: call.Actor, Number: key.number, Remaining: remaining, Sink: r.record}
		out := s.withHost(ctx, home, a, s.cfg.Local.Execute)
		r.outcome, r.cut = out, s.ctx.Err() != nil
		r.record.Finish(out.Result)
		s.retain(key)
	})
	return r, nil
}

// withHost runs an attempt with its home as the host.
func (s *Server) withHost(ctx context.Context, home string, a surfaces.Attempt, execute func(context.Context, surfaces.Attempt) surfaces.Outcome) surfaces.Outcome {
	if s.cfg.Mesh == nil {
		return execute(ctx, a)
	}
	h := &remoteHost{
		ctx: s.ctx, mesh: s.cfg.Mesh(), home: home, attempt: hostRequest{a.CallID, a.Actor, a.Number}, log: s.cfg.Log,
		wake: make(chan struct{}, 1),
	}
	defer h.close()
	a.Host = h
	return execute(ctx, a)
}

func (s *Server) find(key attemptKey) *runningAttempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attempts[key]
}

// retain keeps an ended attempt, and drops the oldest ones.
func (s *Server) retain(key attemptKey) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.attempts[key]; r != nil {
		r.endedAt, r.weight = now, r.record.Size()
		s.bytes += r.weight
		s.ended = append(s.ended, key)
	}
	s.drop(now)
}

// Sweep drops the attempts that ended EndedTTL ago, on a node where no others end.
func (s *Server) Sweep(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(now)
}

// drop drops the oldest ended attempts that are beyond the bounds. s.mu is held.
func (s *Server) drop(now time.Time) {
	drop := 0
	for drop < len(s.ended) {
		r := s.attempts[s.ended[drop]]
		light := s.bytes <= MaxEndedBytes || drop == len(s.ended)-1
		if len(s.ended)-drop <= MaxEnded && light && now.Sub(r.endedAt) < EndedTTL {
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

// followRequest names a call that this node holds, for another node to follow.
type followRequest struct {
	Actor  string `json:"actor"`
	CallID string `json:"call_id"`
	// From is where the stream starts.
	From calls.Mark `json:"from"`
}

// follow streams a call whose record is here.
func (s *Server) follow(ctx context.Context, st *mesh.Stream) error {
	var f followRequest
	if err := receiveJSON(st, &f); err != nil {
		return err
	}
	r := s.cfg.Find(f.Actor, f.CallID)
	if r == nil {
		return &mesh.Error{Code: codeForgotten, Message: "there is no such call here"}
	}
	return s.stream(ctx, st, r, f.From, func() (end, error) { return end{Result: r.Result()}, nil })
}

// outputRequest names a call or, with a number, an attempt whose whole output is wanted.
type outputRequest struct {
	Actor  string `json:"actor"`
	CallID string `json:"call_id"`
	// Number and Epoch name an attempt; with 0 it is the call's own record.
	Number int    `json:"number,omitempty"`
	Epoch  uint64 `json:"epoch,omitempty"`
}

// whole returns the result of a call or an attempt with the output that this node has.
func (s *Server) whole(_ context.Context, _ certs.Identity, q outputRequest) (surfaces.Result, error) {
	var r *calls.Record
	if q.Number == 0 {
		r = s.cfg.Find(q.Actor, q.CallID)
	} else if a := s.find(attemptKey{q.CallID, q.Number, q.Epoch}); a != nil && a.record.Actor == q.Actor {
		r = a.record
	}
	if r == nil {
		return surfaces.Result{}, &mesh.Error{Code: codeForgotten, Message: "there is no such call here"}
	}
	return r.Result(), nil
}

// stream sends the items of a record from a mark on, and its end.
func (s *Server) stream(ctx context.Context, st *mesh.Stream, r *calls.Record, from calls.Mark, outcome func() (end, error)) error {
	return r.Stream(ctx, from, func(items []calls.Item, last bool) error {
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
			e.Stdout, e.Stderr = r.StreamBytes(surfaces.StreamStdout), r.StreamBytes(surfaces.StreamStderr)
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
