package tracing

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Traces are propagated as W3C trace context, https://www.w3.org/TR/trace-context/. Malformed
// values are ignored, as the specification demands: the call is then not part of a trace.
var w3c propagation.TraceContext

// FromHeader returns ctx with the trace that a request names, if any.
func FromHeader(ctx context.Context, h http.Header) context.Context {
	if len(h["Traceparent"]) == 0 {
		return ctx
	}
	return w3c.Extract(ctx, propagation.HeaderCarrier(h))
}

// ID returns the id of the trace of ctx; "" if there is none.
func ID(ctx context.Context) string {
	if id := trace.SpanContextFromContext(ctx).TraceID(); id.IsValid() {
		return id.String()
	}
	return ""
}

// ToHeader writes the trace of ctx, if any, into the header of a request.
func ToHeader(ctx context.Context, h http.Header) { w3c.Inject(ctx, propagation.HeaderCarrier(h)) }

// FromMeta is FromHeader for the _meta of an MCP request, which uses the same names.
func FromMeta(ctx context.Context, meta map[string]any) context.Context {
	parent, _ := meta["traceparent"].(string)
	state, _ := meta["tracestate"].(string)
	return Carrier{"traceparent": parent, "tracestate": state}.Extract(ctx)
}

// Carrier is a trace in a message between nodes; nil if there is none.
type Carrier map[string]string

// Inject returns the trace of ctx.
func Inject(ctx context.Context) Carrier {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return nil
	}
	c := propagation.MapCarrier{}
	w3c.Inject(ctx, c)
	return Carrier(c)
}

// Extract returns ctx with the trace of the message.
func (c Carrier) Extract(ctx context.Context) context.Context {
	if len(c) == 0 {
		return ctx
	}
	return w3c.Extract(ctx, propagation.MapCarrier(c))
}
