// Package tracing names the spans of a call's trace and leads the trace from place to
// place: through a context, a header, a message. What makes a trace and sends it away
// stands in package node; until that has begun one, nothing here does or costs anything.
//
// A trace never holds code, its input, its output or its values.
package tracing

import (
	"context"

	"go.opentelemetry.io/otel/trace"
)

// Scope is the name under which all spans are made.
const Scope = "github.com/locusrun/locus"

// The spans of a call, each below the one that it is a part of.
const (
	Call      = "execute_code" // one call, from the door to its result
	Validate  = "validate"     // the law
	Place     = "place"        // the registry's part: whose the session is, or becomes
	Attempt   = "attempt"      // one of at most two; also each time that it was turned back
	Route     = "route"        // an attempt on another node, as the asking one sees it
	Serve     = "serve"        // the same, as that one does
	Queue     = "queue"        // until the call has its turn and a place to run
	Prepare   = "prepare"      // until there is a process: an environment, a fork
	Run       = "run"          // the code
	Primitive = "primitive"    // one use of the host
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
	MayHaveRun = "locus.may_have_run" // that attempt's code
	Misrouted  = "locus.misrouted"    // the attempt was turned back, and nothing tried
	Repeated   = "locus.repeated"     // an idempotency key led to the call of this id
	Name       = "locus.primitive"
	Seq        = "locus.seq"
	Outcome    = "locus.outcome" // of a primitive
)

// Start begins a span below that of ctx, by whoever made that one. Where that is not
// recorded none begins, and it comes back itself: what is done to it does nothing.
func Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	above := trace.SpanFromContext(ctx)
	if !above.IsRecording() {
		return ctx, above
	}
	return above.TracerProvider().Tracer(Scope).Start(ctx, name, options...)
}

// Under gives ctx with the trace of another context, whose end and values it has not.
func Under(ctx, of context.Context) context.Context {
	span := trace.SpanFromContext(of)
	if !span.SpanContext().IsValid() {
		return ctx
	}
	return trace.ContextWithSpan(ctx, span)
}

// Stages are spans of which each begins where the one before ends. The zero value has
// begun none. One goroutine may use it at a time.
type Stages struct{ now trace.Span }

// Next ends the stage that there is and begins one below the span of ctx.
func (s *Stages) Next(ctx context.Context, name string) {
	s.End()
	_, s.now = Start(ctx, name)
}

// End ends the last stage. It is idempotent.
func (s *Stages) End() {
	if s.now != nil {
		s.now.End()
		s.now = nil
	}
}
