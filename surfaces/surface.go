package surfaces

import (
	"context"
	"encoding/json"
	"time"
)

// Surface is a place that runs calls: this node's engine, another node behind the
// mesh, or a linked machine. Placement picks one and is the only one to try again.
type Surface interface {
	// Execute runs one attempt to its end. It always gives an Outcome, also when
	// ctx ends: a deadline, a stop and a refusal are results like any other. The
	// sink gets nothing any more once Execute has returned. It may be called at
	// the same time for different attempts.
	Execute(ctx context.Context, a Attempt) Outcome
}

// Attempt is one try at a call.
type Attempt struct {
	Call   Call
	CallID string
	Actor  string
	// Number counts the attempts from 1; there are at most two, ever.
	Number int
	// Sink gets what the call says while it runs. Nil drops it.
	Sink Sink
	// Host performs the primitives that the code uses. With nil there are none.
	Host Host
	// Early is told what is known when the call's deadline has passed and its outcome is
	// not there yet, as when the code is held still. Execute gives the outcome all the
	// same. It must not block. May be nil.
	Early func(Outcome)
}

// Outcome is how an attempt ended.
type Outcome struct {
	// Result is what the caller is told when nobody tries again. It is complete
	// also when Loss is set.
	Result Result
	// Loss is set when the process or the node under the attempt was lost, and nil
	// for every verdict: success, exception, deadline, stop, limit, refusal.
	Loss *LostAttempt
	// Misrouted says that the place does not own the session: nothing was run, and
	// whoever routed the attempt there must look again. Result says nothing then.
	Misrouted bool
}

// LostAttempt says what is known of an attempt whose process or node was lost.
type LostAttempt struct {
	// Before says that the session was gone already when the attempt came, so that
	// nothing was tried. MayHaveRun is false then.
	Before bool
	// MayHaveRun is false only when surely nothing of the program has run.
	MayHaveRun bool
	Reason     string
	At         time.Time
	// Epoch is that of the session which was lost; 0 for calls without one.
	Epoch uint64
}

// Sink takes what a running call says, as it comes. Its methods may be called at
// the same time, must return quickly, and must not keep p.
type Sink interface {
	// Output takes output of a stream, StreamStdout or StreamStderr.
	Output(stream string, p []byte)
	Event(e Event)
}

// The names of the output streams.
const (
	StreamStdout = "stdout"
	StreamStderr = "stderr"
)

// The kinds of events, with the fields that each of them sets.
const (
	// EventPlaced says that the call has its place among the others of its session.
	// It is for who holds the call's record, and callers are not told.
	EventPlaced        = "placed"
	EventStarted       = "started"       // ID is the call, Name the node
	EventDisplay       = "display"       // Display
	EventNotice        = "notice"        // Name is the notice's kind, Text
	EventPrimitive     = "primitive"     // ID is the sequence, Name the primitive, Data its arguments
	EventClarification = "clarification" // ID, Text is the question
	EventNotify        = "notify"        // Text
)

// Event is something that a call says beside its output.
type Event struct {
	Kind    string          `json:"kind"`
	ID      string          `json:"id,omitempty"`
	Name    string          `json:"name,omitempty"`
	Text    string          `json:"text,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
	Display *Display        `json:"display,omitempty"`
}
