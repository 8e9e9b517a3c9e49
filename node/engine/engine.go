// Package engine runs code on this machine. It keeps the sessions that this
// node owns, runs the calls of each in order, makes copies for what only reads,
// enforces deadlines, and says what became of every attempt.
//
// The engine never tries again and asks the registry nothing: who owns a session
// and whether a lost attempt is repeated is decided above it. An attempt names
// the epoch under which this node owns its session; an attempt of an older epoch
// is turned away, one of a newer epoch starts the session anew.
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

// Bounds on what one engine holds.
const (
	// DefaultMaxRunning is how many programs may run at a time.
	DefaultMaxRunning = 512
	// MaxQueue is how many calls may wait for one session.
	MaxQueue = 256
	// ForkLimit bounds how long a fork may take before it is given up.
	ForkLimit = 10 * time.Second
	// interruptGrace is how long interrupted code has before it is killed.
	interruptGrace = time.Second
	// killGrace is how long the outcome of a call waits for what was killed to end.
	killGrace = 300 * time.Millisecond
)

// Kernels starts kernels, of one language in one environment for one actor. It may
// take as long as an environment takes to be built, and bounds that itself. When it
// fails, nothing of a caller's code has run; a failure that is the caller's to mend
// is a *StartError.
type Kernels interface {
	Start(ctx context.Context, w Want) (kernel.Kernel, error)
}

// Want says which kernel is wanted.
type Want struct {
	Key  surfaces.SessionKey
	Kind kernel.Kind
	// Name is unique on this node.
	Name string
	// Say takes progress, a line at a time, until Start returns; nil drops it.
	Say func(line string)
}

// StartError says why a kernel that was asked for cannot be had.
type StartError struct {
	Code    surfaces.Code
	Message string
	// Stderr is what a builder said.
	Stderr string
}

// Error gives the message.
func (s *StartError) Error() string { return s.Message }

// Config says what an engine needs. Node, Kernels and Log are required.
type Config struct {
	Node    string
	Kernels Kernels
	Log     *slog.Logger
	// MaxRunning is how many programs may run at a time; 0 means
	// DefaultMaxRunning.
	MaxRunning int
	// Lost is told of each session that this node owned and whose process is gone
	// against its owner's will. It must not block for long. May be nil.
	Lost func(LostSession)
	// Serving reports whether this node may serve sessions at this moment. It must
	// be cheap. Nil means that it always may.
	Serving func() bool
	// Late takes output that comes after its call has ended. May be nil.
	Late func(callID, stream string, p []byte)
	// Room gives the reason why no kernel of a kind may be started for a call at this
	// moment; nil when one may. It must be cheap. Nil means that there is always room.
	Room func(kernel.Kind) *surfaces.Refusal
}

// LostSession says which session lost its state and why.
type LostSession struct {
	Key    surfaces.SessionKey
	Epoch  uint64
	Reason string
	At     time.Time
}

// Engine runs code on this machine. Its methods may be called at the same time.
type Engine struct {
	cfg     Config
	log     *slog.Logger
	running chan struct{}
	names   atomic.Int64

	mu         sync.Mutex
	closed     bool
	suspension suspension
	retired    retired
	sessions   map[surfaces.SessionKey]*session
	runs       map[string]*Run
	watches    sync.WaitGroup // goroutines of the sessions and of what their code asks

	idling sync.Mutex // held while CloseIdle looks at the sessions
}

// New makes an engine.
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

// admit notes the run, so that it can be steered, and starts its clock.
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

// take waits for one of the places to run, within the call's deadline. A call that
// another one has made needs none: that one has a place, and waits.
func (r *Run) take() error {
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

func (r *Run) give() {
	if !r.inner() {
		<-r.engine.running
	}
}

func (r *Run) inner() bool { return r.attempt.Call.Parent != "" }

// Running gives the run of a call that is waiting or running; nil when there is
// none.
func (e *Engine) Running(callID string) *Run {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.runs[callID]
}

// Load counts the calls that are waiting or running, and the live sessions.
func (e *Engine) Load() (calls, sessions int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.runs), len(e.sessions)
}

// nextName gives a name for a kernel that is unique in this process.
func (e *Engine) nextName(what string) string {
	return fmt.Sprintf("%s-%d", what, e.names.Add(1))
}

// Close stops every run, kills every session and waits for their ends. The
// sessions are not reported as lost: the node that closes knows.
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
	// errSessionClosed: the session was closed while the call waited in its line.
	errSessionClosed = errors.New("the session was closed")
	// errNotServing: the deadline passed, or the call was stopped, while the node
	// was not allowed to serve sessions.
	errNotServing = errors.New("this node is cut off from the mesh and may not serve sessions at the moment")
)
