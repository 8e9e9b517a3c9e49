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

// Record is the record of a call, and its sink while it runs. It is safe for concurrent use.
type Record struct {
	ID      string
	Actor   string
	Call    surfaces.Call
	Started time.Time

	stop       func() // stops the call; idempotent
	ledger     atomic.Pointer[primitives.Ledger]
	placed     chan struct{} // closed when the call has its place in the queue of its session
	placedOnce sync.Once
	done       chan struct{} // closed when the call has ended

	children children

	ending sync.Mutex // held while a result is set, so that the second of two sees the first

	mu              sync.Mutex
	stdout          outputBuffer
	stderr          outputBuffer
	late            outputBuffer     // what the call's processes wrote after its end
	finalOutput     *surfaces.Result // the output as the node that ran the call has it; nil while the buffers have all of it
	journal         journal
	started         bool             // the event that the call has started was received
	earlyPrimitives []surfaces.Event // primitives that came before that event
	node            string           // where the code runs
	questions       []question       // open questions of the call's own code
	result          surfaces.Result  // valid once ended is set
	ended           bool
	followers       map[chan struct{}]struct{} // one channel per reader, which holds a token while there is news
	abandonTimer    *time.Timer                // stops the call of a caller that is gone; nil while none is due
}

var (
	_ surfaces.Sink     = (*Record)(nil)
	_ primitives.Caller = (*Record)(nil)
)

// NewRecord makes the record of a call that is about to run. stop stops the call; it may be
// called more than once and from any goroutine.
func NewRecord(id string, call surfaces.Call, stop func()) *Record {
	return &Record{
		ID: id, Actor: call.Actor, Call: call, Started: time.Now(), stop: stop,
		placed: make(chan struct{}), done: make(chan struct{}),
	}
}

// Output adds output of the running call.
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

// Skip counts output of a stream that was written but is no longer available.
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

// StreamBytes counts the bytes of a stream so far.
func (r *Record) StreamBytes(stream string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.journal.streamBytes(stream)
}

// Complete sets the output as the node that ran the call has it, for the case that some of it
// was skipped on the way.
func (r *Record) Complete(res surfaces.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.finalOutput = &res
}

// Late adds output that a process or thread of the call wrote after the call's end. Its head
// and tail appear in a notice of the result.
func (r *Record) Late(p []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late.write(p)
}

// Placed is closed when the call has its place in the queue of its session.
func (r *Record) Placed() <-chan struct{} { return r.placed }

// Event adds an event of the running call.
func (r *Record) Event(e surfaces.Event) {
	if e.Kind == surfaces.EventPlaced {
		r.placedOnce.Do(func() { close(r.placed) })
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Kind == surfaces.EventNotice && e.Name == surfaces.NoticeRetry {
		r.stdout, r.stderr, r.finalOutput = outputBuffer{}, outputBuffer{}, nil
		r.questions = nil
	}
	switch {
	case e.Kind == surfaces.EventStarted:
		r.node = e.Name
	case e.Kind == surfaces.EventClarification && !strings.Contains(e.ID, "/"): // with "/" it is in the record of a child
		r.ask(e)
	}
	if e.Kind == surfaces.EventPrimitive && !r.started {
		r.earlyPrimitives = append(r.earlyPrimitives, e)
		return
	}
	r.journal.event(e)
	if e.Kind != surfaces.EventPlaced {
		r.flushEarly()
	}
	r.wake()
}

// flushEarly releases the primitives that arrived before the event that the call has started.
// From another node the two arrive on different streams, and a caller that does not know the
// call's id yet could not answer. r.mu is held.
func (r *Record) flushEarly() {
	r.started = true
	for _, e := range r.earlyPrimitives {
		r.journal.event(e)
	}
	r.earlyPrimitives = nil
}

// SetLedger sets the ledger of the call's primitives.
func (r *Record) SetLedger(l *primitives.Ledger) { r.ledger.Store(l) }

// Ledger returns the ledger of the call's primitives; nil if there is none, as for a call that
// runs here for another node.
func (r *Record) Ledger() *primitives.Ledger { return r.ledger.Load() }

// Settle records that a primitive that the caller was asked for was answered. Until then every
// follower of the call receives it.
func (r *Record) Settle(seq string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.earlyPrimitives = slices.DeleteFunc(r.earlyPrimitives, func(e surfaces.Event) bool { return e.ID == seq })
	r.journal.settle(seq)
}

// wake notifies every follower that there is something new. r.mu is held.
func (r *Record) wake() {
	for c := range r.followers {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// Finish ends the call with its result, to which the output is added. It returns false if the
// call had already ended.
func (r *Record) Finish(res surfaces.Result) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return false
	}
	r.completeResult(&res)
	r.result, r.ended = res, true
	r.journal.waiting, r.earlyPrimitives = nil, nil
	if r.abandonTimer != nil {
		r.abandonTimer.Stop()
	}
	close(r.done)
	r.wake()
	return true
}

// completeResult adds the output to a result, and makes nil lists empty lists, as clients
// expect. r.mu is held.
func (r *Record) completeResult(res *surfaces.Result) {
	r.fillOutput(res)
	if res.Display == nil {
		res.Display = []surfaces.Display{}
	}
	if res.Notice == nil {
		res.Notice = []surfaces.Notice{}
	}
}

// fillOutput writes the output so far into a result. r.mu is held.
func (r *Record) fillOutput(res *surfaces.Result) {
	if r.finalOutput != nil {
		res.Stdout, res.Stderr, res.Truncated = r.finalOutput.Stdout, r.finalOutput.Stderr, r.finalOutput.Truncated
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

// Result returns the result, or that so far with status running.
func (r *Record) Result() surfaces.Result {
	waiting := r.OpenQuestions()
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
	r.completeResult(&res)
	return res
}

// Ended reports whether the call has ended.
func (r *Record) Ended() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}

// Abandon records that the caller is gone: the call is stopped unless it has a follower
// within the grace time. Background calls go on.
func (r *Record) Abandon(grace time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || r.Call.Background || len(r.followers) > 0 || r.abandonTimer != nil {
		return
	}
	r.abandonTimer = time.AfterFunc(max(grace, 0), r.stopIfAlone)
}

// stopIfAlone stops the call if it still has no follower.
func (r *Record) stopIfAlone() {
	r.mu.Lock()
	alone := r.abandonTimer != nil && len(r.followers) == 0 && !r.ended
	r.abandonTimer = nil
	r.mu.Unlock()
	if alone {
		r.stop()
	}
}

// Size is about how many bytes of memory the record takes.
func (r *Record) Size() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.Ledger().Size() + 1024 + len(r.Call.Code) + len(r.Call.Stdin) + cap(r.journal.ring) + r.journal.weight
	for _, t := range []*outputBuffer{&r.stdout, &r.stderr, &r.late} {
		w += cap(t.head) + cap(t.tail)
	}
	for _, d := range r.result.Display {
		w += len(d.Data)
	}
	return w + len(r.result.Result) + len(r.result.Stdout) + len(r.result.Stderr)
}
