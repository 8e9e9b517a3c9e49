// Package tracing names the spans and attributes of a call's trace, and propagates the trace
// through contexts, HTTP headers and messages between nodes. Package node starts and exports
// traces; without a started trace everything here is a cheap no-op.
//
// A trace never contains code, its input, its output or values.
package tracing

import (
	"context"

	"go.opentelemetry.io/otel/trace"
)

// Scope is the instrumentation scope of all spans.
const Scope = "github.com/locusrun/locus"

// The spans of a call. Each is a child of the one that it is a part of.
const (
	Call      = "execute_code" // one call, from the door to its result
	Validate  = "validate"     // validation of the arguments
	Place     = "place"        // finding, claiming or rebuilding the session's owner
	Attempt   = "attempt"      // one of at most two attempts, or one that was misrouted
	Route     = "route"        // an attempt on another node, seen from the routing node
	Serve     = "serve"        // the same, seen from the node that runs it
	Queue     = "queue"        // waiting for the session and for a slot to run in
	Prepare   = "prepare"      // getting a process: environment, fork
	Run       = "run"          // running the code
	Primitive = "primitive"    // one use of a primitive
	Ask       = "ask"          // a question to the running code; the run of its program is below
)

// The names of attributes.
const (
	CallID     = "locus.call_id"
	Parent     = "locus.parent_call_id" // of a call that a stored function makes
	Function   = "locus.function"
	Actor      = "locus.actor"
	Language   = "locus.language"
	StateMode  = "locus.state_mode"
	Session    = "locus.session" // its name, or its number where it has none
	Surface    = "locus.surface"
	Machine    = "locus.machine"
	Node       = "locus.node" // that ran it
	Status     = "locus.status"
	Code       = "locus.code" // of a refusal or failure
	Attempts   = "locus.attempts"
	Number     = "locus.attempt"
	Loss       = "locus.loss"         // why an attempt was lost
	MayHaveRun = "locus.may_have_run" // the code of the lost attempt may have run
	Misrouted  = "locus.misrouted"    // the node does not own the session, and ran nothing
	Repeated   = "locus.repeated"     // the idempotency key belongs to the call of this id
	Name       = "locus.primitive"
	Seq        = "locus.seq"
	Outcome    = "locus.outcome" // of a primitive
)

// Start starts a child of the span in ctx, with the same tracer provider. If that span is not
// recorded, none is started and that span is returned, whose methods do nothing.
func Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	above := trace.SpanFromContext(ctx)
	if !above.IsRecording() {
		return ctx, above
	}
	return above.TracerProvider().Tracer(Scope).Start(ctx, name, options...)
}

// WithSpanOf returns ctx with the span of another context, but not its cancellation or values.
func WithSpanOf(ctx, of context.Context) context.Context {
	span := trace.SpanFromContext(of)
	if !span.SpanContext().IsValid() {
		return ctx
	}
	return trace.ContextWithSpan(ctx, span)
}

// Stages is a sequence of spans, each of which starts when the previous one ends. The zero
// value is ready to use. It is not safe for concurrent use.
type Stages struct{ now trace.Span }

// Next ends the current stage and starts one as a child of the span in ctx.
func (s *Stages) Next(ctx context.Context, name string) {
	s.End()
	_, s.now = Start(ctx, name)
}

// End ends the current stage. It is idempotent.
func (s *Stages) End() {
	if s.now != nil {
		s.now.End()
		s.now = nil
	}
}
