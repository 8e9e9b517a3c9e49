package calls

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/locusrun/locus/node/primitives"
	"github.com/locusrun/locus/surfaces"
)

// Record is one call. It is the sink of the call while it runs. Its methods may
// be called at the same time.
type Record struct {
	ID      string
	Actor   string
	Call    surfaces.Call
	Started time.Time

	stop   func() // stops the call; idempotent
	ledger atomic.Pointer[primitives.Ledger]
	placed chan struct{}
	place  sync.Once
	done   chan struct{}

	children children

	ending sync.Mutex // held while the call is given a result, so that of two the later one sees the other

	mu        sync.Mutex
	stdout    tape
	stderr    tape
	late      tape
	whole     *surfaces.Result // the output as the node has it that ran the call; nil while the tapes have all of it
	journal   journal
	begun     bool             // an event has told that the code runs
	early     []surfaces.Event // primitives that came before that event
	node      string           // where the code runs
	questions []question       // of the code itself
	result    surfaces.Result
	ended     bool
	followers map[chan struct{}]struct{}
	leaving   *time.Timer
}

var (
	_ surfaces.Sink     = (*Record)(nil)
	_ primitives.Caller = (*Record)(nil)
)

// NewRecord makes the record of a call that is about to run. stop stops it; it may
// be called more than once and from any goroutine.
func NewRecord(id string, call surfaces.Call, stop func()) *Record {
	return &Record{
		ID: id, Actor: call.Actor, Call: call, Started: time.Now(), stop: stop,
		placed: make(chan struct{}), done: make(chan struct{}),
	}
}

// Output takes output of the running call.
func (r *Record) Output(stream string, p []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if stream == surfaces.StreamStderr {
		r.stderr.write(p)
	} else {
		r.stdout.write(p)
	}
	r.journal.output(stream, p)
	r.wake()
}

// Skip counts output of a stream that was written and is no longer to be had.
func (r *Record) Skip(stream string, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if stream == surfaces.StreamStderr {
		r.stderr.skip(n)
	} else {
		r.stdout.skip(n)
	}
	r.journal.count(stream, n)
}

// Said counts the bytes of a stream so far.
func (r *Record) Said(stream string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.journal.said(stream)
}

// Complete gives the record the output as the node has it that ran the call, for
// when some of it was skipped on the way.
func (r *Record) Complete(res surfaces.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.whole = &res
}

// Late takes output that a process or thread of the call wrote after its end. The
// head and the tail of it are told in a notice of the call's result.
func (r *Record) Late(p []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late.write(p)
}

// Placed is closed when the call has its place among the others of its session.
func (r *Record) Placed() <-chan struct{} { return r.placed }

// Event takes what the call says beside its output.
func (r *Record) Event(e surfaces.Event) {
	if e.Kind == surfaces.EventPlaced {
		r.place.Do(func() { close(r.placed) })
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Kind == surfaces.EventNotice && e.Name == surfaces.NoticeRetry {
		r.stdout, r.stderr, r.whole = tape{}, tape{}, nil
		r.questions = nil
	}
	switch {
	case e.Kind == surfaces.EventStarted:
		r.node = e.Name
	case e.Kind == surfaces.EventClarification && !strings.Contains(e.ID, "/"): // else a child's, which has it
		r.ask(e)
	}
	if e.Kind == surfaces.EventPrimitive && !r.begun {
		r.early = append(r.early, e)
		return
	}
	r.journal.event(e)
	if e.Kind != surfaces.EventPlaced {
		r.begin()
	}
	r.wake()
}

// begin hands on the primitives that came before the call was known to run. From another
// node the two come by different streams, and a caller who has not been told the call's
// id yet could not answer. r.mu is held.
func (r *Record) begin() {
	r.begun = true
	for _, e := range r.early {
		r.journal.event(e)
	}
	r.early = nil
}

// Keep gives the record the ledger of the call's primitives.
func (r *Record) Keep(l *primitives.Ledger) { r.ledger.Store(l) }

// Ledger gives the ledger of the call's primitives; nil where there is none, as in
// the record of a call that runs here for another node.
func (r *Record) Ledger() *primitives.Ledger { return r.ledger.Load() }

// Settle says that a primitive that the caller was asked for needs no answer any
// more. Until then it is told to everybody who follows the call.
func (r *Record) Settle(seq string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.early = slices.DeleteFunc(r.early, func(e surfaces.Event) bool { return e.ID == seq })
	r.journal.settle(seq)
}

// wake tells every follower that there is something new. r.mu is held.
func (r *Record) wake() {
	for c := range r.followers {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// Finish ends the call with its result, to which the output is added; false when it had
// ended before.
func (r *Record) Finish(res surfaces.Result) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return false
	}
	r.complete(&res)
	r.result, r.ended = res, true
	r.journal.waiting, r.early = nil, nil
	if r.leaving != nil {
		r.leaving.Stop()
	}
	close(r.done)
	r.wake()
	return true
}

// complete adds to a result what the record has. Lists are lists for every reader, also
// where there is nothing in them. r.mu is held.
func (r *Record) complete(res *surfaces.Result) {
	r.fill(res)
	if res.Display == nil {
		res.Display = []surfaces.Display{}
	}
	if res.Notice == nil {
		res.Notice = []surfaces.Notice{}
	}
}

// fill writes the output so far into a result. r.mu is held.
func (r *Record) fill(res *surfaces.Result) {
	if r.whole != nil {
		res.Stdout, res.Stderr, res.Truncated = r.whole.Stdout, r.whole.Stderr, r.whole.Truncated
		return
	}
	var cut surfaces.Truncation
	res.Stdout, cut.Stdout = r.stdout.text()
	res.Stderr, cut.Stderr = r.stderr.text()
	res.Truncated = nil
	if cut.Stdout != nil || cut.Stderr != nil {
		res.Truncated = &cut
	}
}

// Done is closed when the call has ended.
func (r *Record) Done() <-chan struct{} { return r.done }

// Result gives the result, or the result so far.
func (r *Record) Result() surfaces.Result {
	waiting := r.Waiting()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		res := r.result
		if r.late.total > 0 {
			text, _ := r.late.text()
			res.Notice = append(res.Notice[:len(res.Notice):len(res.Notice)], surfaces.Notice{Kind: "late_output", Text: text})
		}
		return res
	}
	res := surfaces.Result{CallID: r.ID, Status: surfaces.StatusRunning, Node: r.node, Notice: waiting, DurationMS: surfaces.Milliseconds(time.Since(r.Started))}
	r.Call.Coordinates().Into(&res)
	r.complete(&res)
	return res
}

// Ended reports whether the call has ended.
func (r *Record) Ended() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}

// Abandon says that the caller is gone: the call is stopped unless somebody
// follows it within the grace time. Calls in the background go on.
func (r *Record) Abandon(grace time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || r.Call.Background || len(r.followers) > 0 || r.leaving != nil {
		return
	}
	r.leaving = time.AfterFunc(max(grace, 0), r.leave)
}

// leave stops the call when still nobody follows it.
func (r *Record) leave() {
	r.mu.Lock()
	alone := r.leaving != nil && len(r.followers) == 0 && !r.ended
	r.leaving = nil
	r.mu.Unlock()
	if alone {
		r.stop()
	}
}

// Weight is roughly how many bytes the record holds.
func (r *Record) Weight() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.Ledger().Weight() + 1024 + len(r.Call.Code) + len(r.Call.Stdin) + cap(r.journal.ring) + r.journal.weight
	for _, t := range []*tape{&r.stdout, &r.stderr, &r.late} {
		w += cap(t.head) + cap(t.tail)
	}
	for _, d := range r.result.Display {
		w += len(d.Data)
	}
	return w + len(r.result.Result) + len(r.result.Stdout) + len(r.result.Stderr)
}
