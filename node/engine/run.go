package engine

import (
	"context"
	"sync"
	"time"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/surfaces"
	"github.com/locusrun/locus/surfaces/tracing"
)

// ending says why a call was ended before its code ended by itself.
type ending uint8

const (
	byItself ending = iota
	byDeadline
	byStop
)

// Run is one attempt that waits or runs on this node. Its exported methods steer it. They
// may be called at any time, even after it has ended.
type Run struct {
	engine  *Engine
	attempt surfaces.Attempt
	began   time.Time
	ctx     context.Context
	cancel  context.CancelCauseFunc // its cause says why a waiting call ends, such as errExpired
	clock   clock                   // runs until the deadline
	tap     tap
	asked   questions
	asking  asking
	stages  tracing.Stages // used only by the goroutine that executes

	mu     sync.Mutex
	kernel kernel.Kernel // nil while no code runs
	kills  func(ending)  // kills the process that runs the code
	why    ending        // set once, by the deadline or a stop, whichever is first
	force  *time.Timer   // kills the code if the interrupt has no effect
	forced bool          // force has fired
	paused bool          // by the caller, see Pause
	ended  bool          // nothing steers the call any more
	number int           // number of the running program

	resumed chan struct{} // closed when a paused call is resumed; nil while it is not paused

	suspended bool        // the node may not serve sessions at the moment
	stilled   bool        // the clock is held because of suspended
	overdue   *time.Timer // sends the early answer of a suspended call
	session   *session    // the session in which the code runs, if any

	notices []surfaces.Notice // used only by the goroutine that executes
}

// expire is called when the deadline has passed.
func (r *Run) expire() { r.finishBy(byDeadline, errExpired) }

// Stop interrupts the call's code, and kills it a second later if it still runs.
func (r *Run) Stop() { r.finishBy(byStop, errStopped) }

func (r *Run) finishBy(why ending, cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || r.why != byItself {
		return
	}
	r.why = why
	r.cancel(cause)
	r.interrupt()
}

// interrupt interrupts the code, and schedules a kill. r.mu is held.
func (r *Run) interrupt() {
	if r.kernel == nil {
		return
	}
	if r.paused {
		r.thaw()
	}
	if r.session != nil {
		r.session.expect(r.why.reason())
	}
	k := r.kernel
	r.force = time.AfterFunc(interruptGrace, func() { r.kill(k) })
	if err := k.Interrupt(r.number); err != nil {
		r.engine.log.Warn("a call could not be interrupted", "call_id", r.attempt.CallID, "error", err)
	}
}

// kill kills the process that runs the code, without holding a lock. The code may have
// started thousands of processes, so the outcome does not wait for their end longer than
// killGrace.
func (r *Run) kill(k kernel.Kernel) {
	r.mu.Lock()
	if r.ended || r.kernel != k {
		r.mu.Unlock()
		return
	}
	r.forced = true
	kills, why := r.kills, r.why
	r.mu.Unlock()
	patience := time.AfterFunc(killGrace, k.Process().Abandon)
	defer patience.Stop()
	kills(why)
}

// killOwn kills a kernel that only this call has used, unless kill is already doing so.
func (r *Run) killOwn(k kernel.Kernel) {
	if _, forced := r.ends(); !forced {
		k.Kill()
	}
}

// in runs the call's code in k until it ends. kills must kill the process that runs the
// code; it is called if an interrupt has no effect. If the call was ended before the code
// could start, the error is the cause.
func (r *Run) in(k kernel.Kernel, p kernel.Program, kills func(ending)) (kernel.Report, error) {
	r.mu.Lock()
	if r.why != byItself {
		r.mu.Unlock()
		return kernel.Report{}, context.Cause(r.ctx)
	}
	r.kernel, r.kills, r.number = k, kills, p.Number
	if r.suspended {
		r.still() // the node was suspended after the call was admitted
	}
	r.mu.Unlock()

	// Running code ends by an interrupt or by the end of its process, not by the end of a
	// context.
	r.stages.Next(r.ctx, tracing.Run)
	report, err := k.Run(context.WithoutCancel(r.ctx), p)
	r.stages.End()

	r.mu.Lock()
	if r.force != nil {
		r.force.Stop()
	}
	r.kernel = nil
	r.mu.Unlock()
	return report, err
}

// ends returns why the call was ended, and whether its process was killed.
func (r *Run) ends() (why ending, forced bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.why, r.forced
}

func (r *Run) finish() {
	r.clock.stop()
	r.asking.end()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	if r.force != nil {
		r.force.Stop()
	}
	if r.overdue != nil {
		r.overdue.Stop()
	}
}

// notice adds a notice to the result and emits it as an event.
func (r *Run) notice(notices ...surfaces.Notice) {
	for _, n := range notices {
		r.notices = append(r.notices, n)
		r.emit(surfaces.Event{Kind: surfaces.EventNotice, Name: n.Kind, Text: n.Text})
	}
}

func (r *Run) emit(e surfaces.Event) {
	if r.attempt.Sink != nil {
		r.attempt.Sink.Event(e)
	}
}

// program returns what the kernel is to run.
func (r *Run) program(number int, readOnly bool) kernel.Program {
	c := &r.attempt.Call
	return kernel.Program{
		CallID: r.attempt.CallID, Number: number, Code: c.Code, Stdin: c.Stdin,
		ReadOnly: readOnly, Diff: c.StateMode == surfaces.Stateful,
		Tap: &r.tap, Events: r.event,
	}
}

// event translates an event of the kernel for the caller.
func (r *Run) event(e kernel.Event) {
	switch e.Kind {
	case kernel.EventDisplay:
		r.emit(surfaces.Event{Kind: surfaces.EventDisplay, Display: &e.Display})
	case kernel.EventNotice:
		r.emit(surfaces.Event{Kind: surfaces.EventNotice, Name: e.Notice.Kind, Text: e.Notice.Text})
	case kernel.EventPrimitive:
		r.ask(e)
	case kernel.EventNotify, kernel.EventClarification:
		if e.Kind == kernel.EventClarification {
			r.asked.ask(e.ID)
		}
		r.emit(surfaces.Event{Kind: string(e.Kind), ID: e.ID, Name: e.Name, Text: e.Text, Data: e.Data})
	}
}

// tap passes the kernel's output to the call's sink or, once the call has ended, to
// Config.Late.
type tap struct {
	mu     sync.RWMutex
	sink   surfaces.Sink
	ended  bool // set once the call has its outcome; output then goes to late
	late   func(callID, stream string, p []byte)
	callID string
}

// Output receives output from the kernel.
func (t *tap) Output(s kernel.Stream, p []byte) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	switch {
	case !t.ended && t.sink != nil:
		t.sink.Output(s.String(), p)
	case t.ended && t.late != nil:
		t.late(t.callID, s.String(), p)
	}
}

func (t *tap) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended, t.sink = true, nil
}
