package tracing

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// A trace travels as the W3C's trace context, https://www.w3.org/TR/trace-context/. What
// is malformed begins no trace and is no error: the call is not the trace's.
var w3c propagation.TraceContext

// FromHeader gives ctx with the trace that a request is a part of, if it names one.
func FromHeader(ctx context.Context, h http.Header) context.Context {
	if len(h["Traceparent"]) == 0 {
		return ctx
	}
	return w3c.Extract(ctx, propagation.HeaderCarrier(h))
}

// ID names the trace that ctx is a part of; it is empty where there is none.
func ID(ctx context.Context) string {
	if id := trace.SpanContextFromContext(ctx).TraceID(); id.IsValid() {
		return id.String()
	}
	return ""
}

// ToHeader writes the trace of ctx, if there is one, into the header of a request.
func ToHeader(ctx context.Context, h http.Header) { w3c.Inject(ctx, propagation.HeaderCarrier(h)) }

// FromMeta is FromHeader for the _meta of a request of the Model Context Protocol, which
// has the same names.
func FromMeta(ctx context.Context, meta map[string]any) context.Context {
	parent, _ := meta["traceparent"].(string)
	state, _ := meta["tracestate"].(string)
	return Carrier{"traceparent": parent, "tracestate": state}.Into(ctx)
}

// Carrier is a trace in a message between nodes; nil where there is none.
type Carrier map[string]string

// Carry gives the trace of ctx.
func Carry(ctx context.Context) Carrier {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return nil
	}
	c := propagation.MapCarrier{}
	w3c.Inject(ctx, c)
	return Carrier(c)
}

// Into gives ctx with the trace that the message is a part of.
func (c Carrier) Into(ctx context.Context) context.Context {
	if len(c) == 0 {
		return ctx
	}
	return w3c.Extract(ctx, propagation.MapCarrier(c))
}
