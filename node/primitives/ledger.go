package primitives

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/locusrun/locus/surfaces"
	"github.com/locusrun/locus/surfaces/tracing"
)

// Bounds on one ledger.
const (
	// MaxRunning is how many uses providers perform at a time for one call; more wait. Uses
	// that the caller performs are not counted.
	MaxRunning = 256
	// MaxReplayBytes bounds the outcomes that are kept for a second attempt of the call.
	// MaxHeldBytes bounds all outcomes that are held, including those beyond MaxReplayBytes that
	// the code has not fetched yet.
	MaxReplayBytes = 64 << 20
	MaxHeldBytes   = 256 << 20
	// MaxRefused is how many refused uses are recorded.
	MaxRefused = 1000
	// maxSeq is an exclusive bound on the sequence numbers of uses.
	maxSeq = 1_000_000_000
)

// Caller receives the events for the caller of a call. Its methods must return quickly.
type Caller interface {
	// Event sends an event of the call.
	Event(e surfaces.Event)
	// Settle says that the event which asked for a primitive has its answer.
	Settle(seq string)
}

// Config says what the code of one call may use. Budget, Caller, Go and Log are required.
type Config struct {
	// Trace is a context with the trace that the uses belong to. Nothing else is taken from
	// it.
	Trace context.Context
	// ReadOnly restricts the code to functions that are marked read-only.
	ReadOnly bool
	// Budget bounds the uses performed. Several ledgers may share one.
	Budget *Budget
	// Offers lists what the caller performs itself; nil if it accepts any name.
	Offers []surfaces.Offer
	// Attended says that the caller can answer: it reads the call's events, or may start
	// to.
	Attended bool
	// NoCallerReason ends the error for an unknown name: it says why the caller is not asked. It
	// may be empty.
	NoCallerReason string
	// Providers are the host's providers by namespace.
	Providers map[string]Provider
	Caller    Caller
	// Settled, if not nil, is called with each recorded use once it has its outcome, before
	// the code gets it and before End returns. Calls may be concurrent and may block; only
	// the code of that use and End wait for them. Settled must not call End.
	Settled func(surfaces.UseRecord)
	// Go runs a function on a goroutine that the ledger's owner waits for.
	Go  func(func())
	Log *slog.Logger
}

var errEnded = errors.New("the call has ended")

// Ledger decides what the code of one call may use of its host, has it performed, and keeps
// the outcomes, so that a second attempt of the call gets the outcomes of the first. Its
// methods are safe for concurrent use. A nil Ledger behaves like that of a call which has
// ended.
type Ledger struct {
	cfg   Config
	ctx   context.Context // ends with the call; providers work under it
	end   context.CancelCauseFunc
	slots chan struct{}

	mu        sync.Mutex
	over      bool
	attempt   int
	latest    map[int64]*use  // by sequence number: the use that the latest attempt got
	record    []*use          // uses that were performed or refused
	asked     map[string]*use // by the sequence number in the caller's event
	performed int
	refused   int
	held      int // bytes of outcomes
	display   []surfaces.Display
	shown     int // bytes of display
}

var _ surfaces.Host = (*Ledger)(nil)

// NewLedger makes the ledger of a call that is about to start. The owner must call End.
func NewLedger(cfg Config) *Ledger {
	l := &Ledger{cfg: cfg, slots: make(chan struct{}, MaxRunning), latest: make(map[int64]*use), asked: make(map[string]*use)}
	l.ctx, l.end = context.WithCancelCause(tracing.WithSpanOf(context.Background(), cfg.Trace))
	return l
}

// End ends the call: uses in flight are cancelled, and later ones are refused. The record
// can still be read. End is idempotent.
func (l *Ledger) End() {
	if l == nil {
		return
	}
	l.mu.Lock()
	l.over = true
	all := slices.AppendSeq(slices.Clone(l.record), maps.Values(l.latest))
	l.latest = nil
	l.mu.Unlock()
	for _, x := range all {
		x.settle(ended)
		<-x.done // Settled may still be running for a use that had its outcome already
	}
	l.mu.Lock()
	for _, x := range all {
		x.answer = nil
	}
	l.held = 0
	l.mu.Unlock()
	l.end(errEnded)
}

// ended is the outcome of every use that the end of the call comes before.
var ended = failure(ErrorEnded, "the call has ended")

// Ask starts one use and returns a function that waits for its outcome. The same sequence
// number in the same attempt is the same use. A use that the first attempt has asked for,
// under the same sequence number and with the same arguments, is not performed again: the
// second attempt gets its outcome, or joins it while it is in flight.
func (l *Ledger) Ask(u surfaces.Use) func(context.Context) json.RawMessage {
	if l == nil {
		return resolved(ended)
	}
	if u.Name == Describe {
		return l.describe(u.Data)
	}
	seq, err := strconv.ParseInt(u.Seq, 10, 64)
	if err != nil || seq < 1 || seq >= maxSeq {
		return resolved(failure(ErrorInvalid, "%.40q is no sequence of a primitive", u.Seq))
	}
	if len(u.Data) > MaxBytes {
		return resolved(failure(ErrorInvalid, "the arguments have %d bytes, over the limit of %d", len(u.Data), MaxBytes))
	}
	sum, err := digest(u.Name, u.Data)
	if err != nil {
		return resolved(failure(ErrorInvalid, "the arguments are not a JSON object: %v", err))
	}
	x, fresh := l.enter(&use{
		ledger: l, seq: seq, name: u.Name, digest: sum, data: u.Data, attempt: u.Attempt, left: u.Remaining, began: time.Now(), done: make(chan struct{}),
	})
	if fresh {
		l.begin(x)
	}
	return x.wait
}

// resolved returns an outcome that is known at once.
func resolved(o outcome) func(context.Context) json.RawMessage {
	return func(context.Context) json.RawMessage { return o.answer }
}

// enter registers x. It returns the use to wait for, and whether that is x itself.
func (l *Ledger) enter(x *use) (*use, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.over || x.attempt < l.attempt:
		x.word, x.answer = ended.word, ended.answer
		close(x.done)
		return x, false
	case x.attempt > l.attempt:
		l.attempt = x.attempt
	}
	before := l.latest[x.seq]
	switch {
	case before == nil || before.digest != x.digest:
	case before.attempt == x.attempt:
		return before, false
	case before.allowed || before.word == "":
		before.attempt, before.replayed = x.attempt, true
		return before, false
	default: // refused before: it is judged again, and replaces that record
		l.record = slices.DeleteFunc(l.record, func(u *use) bool { return u == before })
		l.refused--
	}
	l.latest[x.seq] = x
	_, x.span = tracing.Start(l.ctx, tracing.Primitive)
	return x, true
}

// begin has a use performed. Uses that no provider has go to the caller in the order of the
// calls to begin.
func (l *Ledger) begin(x *use) {
	p := l.provider(x.name)
	if p == nil {
		l.perform(x, nil, Function{})
		return
	}
	l.cfg.Go(func() {
		select {
		case l.slots <- struct{}{}:
			defer func() { <-l.slots }()
		case <-l.ctx.Done():
			return
		}
		f, known, err := find(l.ctx, p, x.name)
		switch {
		case err != nil:
			x.settle(l.fault(x.name, err))
		case known:
			l.perform(x, p, f)
		default:
			l.perform(x, nil, f)
		}
	})
}

// perform checks that a use is allowed and has the provider perform it, or the caller if p
// is nil.
func (l *Ledger) perform(x *use, p Provider, f Function) {
	var refusal *Error
	if p == nil {
		f, refusal = l.findOffer(x.name)
	}
	if refusal == nil && l.cfg.ReadOnly && !f.ReadOnly {
		refusal = &Error{ErrorReadOnly, "primitives." + x.name + " is not marked read-only, and this code may only use what is: it runs with state_mode read_only"}
	}
	var data json.RawMessage
	if refusal == nil {
		data, refusal = l.spend(x)
	}
	switch {
	case refusal != nil:
		x.settle(failed(refusal))
	case p == nil:
		l.askCaller(x, data)
	default:
		value, err := p.Call(context.WithValue(trace.ContextWithSpan(l.ctx, x.span), remainingKey{}, x.left), x.name, data)
		if err != nil {
			x.settle(l.fault(x.name, err))
			return
		}
		// The code must not go on before its output is shown.
		l.show(value.Display)
		x.settle(success(value.Result))
	}
}

// spend takes one use off the budget and returns its arguments.
func (l *Ledger) spend(x *use) (json.RawMessage, *Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.over:
		return nil, &Error{ErrorEnded, "the call has ended"}
	case !l.cfg.Budget.take():
		return nil, &Error{ErrorLimit, fmt.Sprintf("the call has used its %d primitives; primitives_limit allows no more", l.cfg.Budget.limit)}
	}
	l.performed++
	x.allowed = true
	l.record = append(l.record, x)
	data := x.data
	x.data = nil
	return data, nil
}

// fault is the outcome of a use whose provider returned an error.
func (l *Ledger) fault(name string, err error) outcome {
	var told *Error
	if errors.As(err, &told) {
		return failed(told)
	}
	if l.ctx.Err() != nil {
		return ended
	}
	l.cfg.Log.Warn("a primitive's provider failed", "primitive", name, "error", err)
	return failure(ErrorProvider, "what provides primitives.%s has failed", name)
}
