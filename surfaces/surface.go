package surfaces

import (
	"context"
	"encoding/json"
	"time"
)

// Surface runs calls: this node's engine, another node of the mesh, or a linked machine.
// Package placement picks one, and is the only package that retries.
type Surface interface {
	// Execute runs one attempt to its end. It always returns an Outcome, even if ctx ends: a
	// timeout, a stop and a refusal are results too. The sink is not used after Execute
	// has returned. Execute is safe for concurrent use with different attempts.
	Execute(ctx context.Context, a Attempt) Outcome
}

// Attempt is one attempt to run a call.
type Attempt struct {
	Call   Call
	CallID string
	Actor  string
	// Number counts the attempts from 1; there are never more than two.
	Number int
	// Remaining is the time until the call's deadline; 0 means all of Call.Timeout.
	Remaining time.Duration
	// Sink receives output and events while the call runs. Nil discards them.
	Sink Sink
	// Host performs the primitives that the code uses. With nil there are none.
	Host Host
	// Early receives a provisional outcome if the call's deadline passes while its code is
	// frozen, because the node may not serve. Execute still returns the real outcome later.
	// Early must not block, and may be nil.
	Early func(Outcome)
}

// Limit is how long the attempt may take.
func (a *Attempt) Limit() time.Duration {
	if a.Remaining > 0 {
		return a.Remaining
	}
	return a.Call.Timeout
}

// Outcome is how an attempt ended.
type Outcome struct {
	// Result is the caller's result if there is no retry. It is complete even if Loss is set.
	Result Result
	// Loss is set if the process or node of the attempt was lost. It is nil for every other
	// outcome: success, exception, timeout, stop, limit, refusal.
	Loss *LostAttempt
	// Misrouted says that the surface does not own the session. Nothing was run, Result is
	// empty, and the attempt has to be routed again with a newer view.
	Misrouted bool
}

// LostAttempt says what is known about an attempt whose process or node was lost.
type LostAttempt struct {
	// Before says that the session was already lost when the attempt arrived, so nothing
	// was run. MayHaveRun is false then.
	Before bool
	// MayHaveRun is false only if surely nothing of the program has run.
	MayHaveRun bool
	Reason     string
	At         time.Time
	// Epoch is that of the lost session; 0 for calls without one.
	Epoch uint64
}

// Sink receives the output and events of a running call. Its methods must be safe for
// concurrent use, return quickly, and not keep p.
type Sink interface {
	// Output receives output of a stream, StreamStdout or StreamStderr.
	Output(stream string, p []byte)
	// Event receives an event other than output.
	Event(e Event)
}

// The names of the output streams.
const (
	StreamStdout = "stdout"
	StreamStderr = "stderr"
)

// The kinds of events, with the fields that each of them sets.
const (
	// EventPlaced says that the call has its place in the queue of its session. It is for
	// the node that holds the call's record; callers do not see it.
	EventPlaced        = "placed"
	EventStarted       = "started"       // ID is the call, Name the node
	EventDisplay       = "display"       // Display
	EventNotice        = "notice"        // Name is the notice's kind, Text
	EventPrimitive     = "primitive"     // ID is the sequence, Name the primitive, Data its arguments
	EventClarification = "clarification" // ID, Text is the question
	EventNotify        = "notify"        // Text
)

// Event is an event of a running call other than output.
type Event struct {
	Kind    string          `json:"kind"`
	ID      string          `json:"id,omitempty"`
	Name    string          `json:"name,omitempty"`
	Text    string          `json:"text,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
	Display *Display        `json:"display,omitempty"`
}
