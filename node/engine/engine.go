// Package engine runs code on this machine. It keeps the sessions that this node owns, runs
// the calls of each in order, forks copies for read-only calls, enforces deadlines, and
// determines the outcome of every attempt.
//
// The engine never retries and does not use the registry: its callers decide who owns a
// session and whether a lost attempt is repeated. An attempt carries the epoch under which
// this node owns its session. An attempt of an older epoch is refused; one of a newer epoch
// gets a new session.
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/surfaces"
	"github.com/locusrun/locus/surfaces/tracing"
)

// Bounds of one engine.
const (
	// DefaultMaxRunning is the default for Config.MaxRunning.
	DefaultMaxRunning = 512
	// MaxQueue bounds the calls that wait for one session.
	MaxQueue = 256
	// ForkLimit bounds the time of a fork. Kernels of Python bound it themselves, and give a
	// copy that is written out and read again kernel.CopyLimit.
	ForkLimit = 10 * time.Second
	// interruptGrace is how long interrupted code may run on before it is killed.
	interruptGrace = time.Second
	// killGrace is how long the outcome of a call waits for killed processes to end.
	killGrace = 300 * time.Millisecond
)

// Kernels starts kernels for one language in one environment of one actor. Start may take
// as long as building the environment does, and bounds that itself. If it fails, no code of
// the caller has run. An error that the caller can correct is a *StartError.
type Kernels interface {
	Start(ctx context.Context, w Want) (kernel.Kernel, error)
}

// Want describes the kernel to start.
type Want struct {
	// Key gives the actor, the language and the environment. Only a session uses its ID.
	Key  surfaces.SessionKey
	Kind kernel.Kind
	// Name is unique on this node.
	Name string
	// Say receives progress, one line at a time, until Start returns. It may be nil.
	Say func(line string)
	// Hold stops the call's clock until its result is called. It is for what is made once for
	// all kernels of the language: the environment, and the process that kernels come from. The
	// start of the kernel itself is the call's own time, or a crowd of calls would be answered
	// long after their deadlines. It may be nil.
	Hold func() (release func())
}

// StartError says why a kernel could not be started.
type StartError struct {
	// Code is what the caller's result carries.
	Code    surfaces.Code
	Message string
	// Stderr is the output of the build.
	Stderr string
}

// Error returns the message.
func (s *StartError) Error() string { return s.Message }

// Config configures an Engine. Node, Kernels and Log are required.
type Config struct {
	// Node is the id of this node, for the results.
	Node    string
	Kernels Kernels
	Log     *slog.Logger
	// MaxRunning bounds the programs that run at a time; 0 means DefaultMaxRunning.
	MaxRunning int
	// Lost is called when a session of this node has lost its process, other than on
	// purpose. It must not block for long. May be nil.
	Lost func(LostSession)
	// Serving reports whether this node may serve sessions now, which depends on its lease.
	// It must be cheap. If nil, the node always may.
	Serving func() bool
	// Late receives output that arrives after its call has ended. May be nil.
	Late func(callID, stream string, p []byte)
	// Room returns a refusal if no kernel of a kind may be started for a call now, and nil
	// if one may. It must be cheap. If nil, there is always room.
	Room func(kernel.Kind) *surfaces.Refusal
}

// LostSession describes a session that has lost its state.
type LostSession struct {
	Key   surfaces.SessionKey
	Epoch uint64
	// Reason is the registry's name for the cause, such as "process_died" or "idle".
	Reason string
	At     time.Time
}

// Engine runs code on this machine. Its methods are safe for concurrent use.
type Engine struct {
	cfg     Config
	log     *slog.Logger
	running chan struct{} // one token per program that runs, up to cfg.MaxRunning
	names   atomic.Int64  // the number of the last kernel name

	mu         sync.Mutex
	closed     bool // set by Close: nothing is started any more
	suspension suspension
	retired    retired
	sessions   map[surfaces.SessionKey]*session
	runs       map[string]*Run // by call id
	watches    sync.WaitGroup  // goroutines that Close waits for

	idling sync.Mutex // held while CloseIdle checks the sessions
}

// New returns an engine.
func New(cfg Config) *Engine {
	if cfg.MaxRunning <= 0 {
		cfg.MaxRunning = DefaultMaxRunning
	}
	if cfg.Serving == nil {
		cfg.Serving = func() bool { return true }
	}
	if cfg.Room == nil {
		cfg.Room = func(kernel.Kind) *surfaces.Refusal { return nil }
	}
	return &Engine{
		cfg: cfg, log: cfg.Log,
		running:  make(chan struct{}, cfg.MaxRunning),
		sessions: make(map[surfaces.SessionKey]*session),
		runs:     make(map[string]*Run),
		retired:  make(retired),
	}
}

var _ surfaces.Surface = (*Engine)(nil)

// Execute runs one attempt to its end.
func (e *Engine) Execute(ctx context.Context, a surfaces.Attempt) surfaces.Outcome {
	began := time.Now()
	r, refusal := e.admit(ctx, a, began)
	if refusal != nil {
		return surfaces.Outcome{Result: refusal.Result(e.partial(&a, began))}
	}
	defer e.dismiss(r)
	r.stages.Next(r.ctx, tracing.Queue)
	defer r.stages.End()
	var out surfaces.Outcome
	switch {
	case a.Call.Session == nil:
		out = r.oneShot()
	case a.Call.StateMode == surfaces.ReadOnly:
		out = r.readOnly()
	default:
		out = r.stateful()
	}
	out.Result.DurationMS = surfaces.Milliseconds(time.Since(began))
	return out
}

func (e *Engine) partial(a *surfaces.Attempt, began time.Time) surfaces.Partial {
	return surfaces.Partial{
		CallID: a.CallID, Node: e.cfg.Node, At: a.Call.Coordinates(), Attempts: a.Number,
		DurationMS: surfaces.Milliseconds(time.Since(began)),
	}
}

// admit registers the run, so that it can be steered, and starts its clock.
func (e *Engine) admit(ctx context.Context, a surfaces.Attempt, began time.Time) (*Run, *surfaces.Refusal) {
	r := &Run{engine: e, attempt: a, began: began, notices: []surfaces.Notice{}}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	r.tap.sink, r.tap.late, r.tap.callID = a.Sink, e.cfg.Late, a.CallID
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		r.cancel(errClosing)
		return nil, &surfaces.Refusal{Code: surfaces.CodeNoCapacity, Message: "this node is shutting down", RetryAfterS: 1}
	}
	if e.runs[a.CallID] != nil {
		r.cancel(errClosing)
		return nil, &surfaces.Refusal{Code: surfaces.CodeInvalidArgument, Message: fmt.Sprintf("call %s is running already", a.CallID)}
	}
	r.asking.ctx, r.asking.end = context.WithCancel(context.WithoutCancel(ctx))
	e.runs[a.CallID] = r
	r.clock.start(a.Limit(), r.expire)
	return r, nil
}

func (e *Engine) dismiss(r *Run) {
	e.mu.Lock()
	delete(e.runs, r.attempt.CallID)
	e.mu.Unlock()
	r.finish()
	r.tap.end()
	r.cancel(errEnded)
}

// acquireSlot waits for a slot to run, within the call's deadline. A call that was made by
// another call needs none: the other one has a slot and waits.
func (r *Run) acquireSlot() error {
	err := r.wait()
	if err == nil {
		r.stages.Next(r.ctx, tracing.Prepare)
	}
	return err
}

func (r *Run) wait() error {
	if r.inner() {
		return nil
	}
	select {
	case r.engine.running <- struct{}{}:
		return nil
	default:
	}
	select {
	case r.engine.running <- struct{}{}:
		return nil
	case <-r.ctx.Done():
		return context.Cause(r.ctx)
	}
}

func (r *Run) releaseSlot() {
	if !r.inner() {
		<-r.engine.running
	}
}

func (r *Run) inner() bool { return r.attempt.Call.Parent != "" }

// Running returns the run of a call that waits or runs; nil if there is none.
func (e *Engine) Running(callID string) *Run {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.runs[callID]
}

// Load returns the numbers of calls that wait or run, and of sessions.
func (e *Engine) Load() (calls, sessions int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.runs), len(e.sessions)
}

// nextName returns a kernel name that is unique in this process.
func (e *Engine) nextName(what string) string {
	return fmt.Sprintf("%s-%d", what, e.names.Add(1))
}

// Close stops every run, kills every session and waits for them to end. The sessions are
// not reported as lost: whoever closes the engine knows.
func (e *Engine) Close() {
	e.mu.Lock()
	e.closed = true
	runs := make([]*Run, 0, len(e.runs))
	for _, r := range e.runs {
		runs = append(runs, r)
	}
	sessions := make([]*session, 0, len(e.sessions))
	for key, s := range e.sessions {
		sessions = append(sessions, s)
		delete(e.sessions, key)
	}
	e.mu.Unlock()
	for _, r := range runs {
		r.Stop()
	}
	for _, s := range sessions {
		s.finish(reasonNodeStopped, false)
	}
	e.watches.Wait()
}

var (
	errEnded   = errors.New("the call has ended")
	errClosing = errors.New("the engine is closing")
	errExpired = errors.New("the call's deadline has passed")
	errStopped = errors.New("the call was stopped")
	// errSessionClosed: the session was closed while the call waited for its turn.
	errSessionClosed = errors.New("the session was closed")
	// errNotServing: the deadline passed, or the call was stopped, while the node
	// was not allowed to serve sessions.
	errNotServing = errors.New("this node is cut off from the mesh and may not serve sessions at the moment")
)
