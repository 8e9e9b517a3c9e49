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

// Bounds on what one ledger does and holds.
const (
	// MaxRunning is how many uses providers perform at a time for one call; more wait.
	// What the caller performs itself is not counted.
	MaxRunning = 256
	// KeepBytes is how much of the outcomes of a call is kept for a second attempt,
	// and HoldBytes how much is held at all, which is more while the code has not
	// fetched it.
	KeepBytes = 64 << 20
	HoldBytes = 256 << 20
	// KeepRefused is how many of the uses that were not performed are recorded.
	KeepRefused = 1000
	// maxSeq bounds the sequence that code may name.
	maxSeq = 1_000_000_000
)

// Caller hears what the caller of a call is asked and shown. Its methods must return
// quickly.
type Caller interface {
	// Event tells an event of the call.
	Event(e surfaces.Event)
	// Settle says that what a primitive's event asks for needs no answer any more.
	Settle(seq string)
}

// Config says what the code of one call may use. Budget, Caller, Go and Log are
// required.
type Config struct {
	// Trace is a context whose trace the uses are part of. Nothing else is taken from it.
	Trace context.Context
	// ReadOnly is set for code that may change nothing.
	ReadOnly bool
	// Budget is how many uses may be performed; it may be another call's too.
	Budget *Budget
	// Offers is what the caller offers itself; nil is whatever the code asks for.
	Offers []surfaces.Offer
	// Attended says that the caller may answer: it reads the call's events, or may
	// come to do so.
	Attended bool
	// Unasked says, in a half-sentence, why the caller is not asked for what nobody else
	// has; empty where it is, or where there is no more to say.
	Unasked string
	// Providers are those of the host, by the namespace of what they offer.
	Providers map[string]Provider
	Caller    Caller
	// Settled, if not nil, is told of each use that the record holds when it has its
	// outcome, before the code has it and before End returns; of several at the same time.
	// It may wait: nothing waits with it but the code and the end. It must not call End.
	Settled func(surfaces.UseRecord)
	// Go runs a function on a goroutine that the owner of the ledger waits for.
	Go  func(func())
	Log *slog.Logger
}

var errEnded = errors.New("the call has ended")

// Ledger decides what the code of one call may use of its host, has it performed,
// and remembers what came of it, so that a second attempt of the call is given what
// the first one was given. Its methods may be called at the same time. A nil Ledger
// is that of a call which is over.
type Ledger struct {
	cfg   Config
	ctx   context.Context // what the providers do for the call ends with it
	end   context.CancelCauseFunc
	slots chan struct{}

	mu        sync.Mutex
	over      bool
	attempt   int
	latest    map[int64]*use  // by sequence, of the latest attempt that came to it
	record    []*use          // what was decided
	asked     map[string]*use // by the sequence that the caller was told
	performed int
	refused   int
	held      int // bytes of outcomes
	display   []surfaces.Display
	shown     int // bytes of display
}

var _ surfaces.Host = (*Ledger)(nil)

// NewLedger makes the ledger of a call that is about to begin. It must be ended.
func NewLedger(cfg Config) *Ledger {
	l := &Ledger{cfg: cfg, slots: make(chan struct{}, MaxRunning), latest: make(map[int64]*use), asked: make(map[string]*use)}
	l.ctx, l.end = context.WithCancelCause(tracing.Under(context.Background(), cfg.Trace))
	return l
}

// End ends the call's authority: what is under way is cancelled, and nothing is
// answered any more. What was decided can still be read. It is idempotent.
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
		<-x.done // of what has its outcome already Settled may be hearing yet
	}
	l.mu.Lock()
	for _, x := range all {
		x.answer = nil
	}
	l.held = 0
	l.mu.Unlock()
	l.end(errEnded)
}

// ended is the outcome of every use for which the call's end comes first.
var ended = failure(ErrorEnded, "the call has ended")

// Ask takes in one use and gives how to wait for its outcome. A use that this
// attempt has asked for before is the same use; one that the attempt before has
// asked for under the same sequence and with the same arguments is not performed
// again, and joined where it is still under way.
func (l *Ledger) Ask(u surfaces.Use) func(context.Context) json.RawMessage {
	if l == nil {
		return already(ended)
	}
	if u.Name == Describe {
		return l.describe(u.Data)
	}
	seq, err := strconv.ParseInt(u.Seq, 10, 64)
	if err != nil || seq < 1 || seq >= maxSeq {
		return already(failure(ErrorInvalid, "%.40q is no sequence of a primitive", u.Seq))
	}
	if len(u.Data) > MaxBytes {
		return already(failure(ErrorInvalid, "the arguments have %d bytes, over the limit of %d", len(u.Data), MaxBytes))
	}
	sum, err := digest(u.Name, u.Data)
	if err != nil {
		return already(failure(ErrorInvalid, "the arguments are not a JSON object: %v", err))
	}
	x, fresh := l.enter(&use{
		ledger: l, seq: seq, name: u.Name, digest: sum, data: u.Data, attempt: u.Attempt, left: u.Left, began: time.Now(), done: make(chan struct{}),
	})
	if fresh {
		l.begin(x)
	}
	return x.wait
}

// already gives an outcome that nobody has to wait for.
func already(o outcome) func(context.Context) json.RawMessage {
	return func(context.Context) json.RawMessage { return o.answer }
}

// enter gives the use that stands for x, and whether that is x itself.
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
	case before.let || before.word == "":
		before.attempt, before.replayed = x.attempt, true
		return before, false
	default: // it was refused, so it is judged again, and takes the other's place
		l.record = slices.DeleteFunc(l.record, func(u *use) bool { return u == before })
		l.refused--
	}
	l.latest[x.seq] = x
	_, x.span = tracing.Start(l.ctx, tracing.Primitive)
	return x, true
}

// begin judges a use and has it performed. What the caller performs is asked for in
// the order in which it came.
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

// perform has a use performed by a provider, or with nil by the caller, if that is
// allowed.
func (l *Ledger) perform(x *use, p Provider, f Function) {
	var refusal *Error
	if p == nil {
		f, refusal = l.offered(x.name)
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
		value, err := p.Call(context.WithValue(trace.ContextWithSpan(l.ctx, x.span), leftKey{}, x.left), x.name, data)
		if err != nil {
			x.settle(l.fault(x.name, err))
			return
		}
		// What is shown comes before the code goes on.
		l.show(value.Display)
		x.settle(success(value.Result))
	}
}

// spend takes one use off the call's budget, and gives its arguments.
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
	x.let = true
	l.record = append(l.record, x)
	data := x.data
	x.data = nil
	return data, nil
}

// fault is the outcome of a use whose provider failed.
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
