package node

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/locusrun/locus/node/calls"
	"github.com/locusrun/locus/surfaces"
	"github.com/locusrun/locus/surfaces/tracing"
)

// traces starts the traces of calls and exports them by OTLP over HTTP. The zero value does
// nothing.
type traces struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer // nil if tracing is off
	out      *spanSender
}

// flushLimit bounds the export of the remaining spans at shutdown.
const flushLimit = 3 * time.Second

// maxAttribute bounds a text in a span, in characters, unless the environment sets a bound.
// Code can choose names of any length.
const maxAttribute = 256

// traceVariables are the standard variables that turn tracing on.
var traceVariables = []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"}

// tracesWanted reports whether an endpoint is configured and tracing is not disabled.
func (c Config) tracesWanted() bool {
	if off, _ := strconv.ParseBool(os.Getenv("OTEL_SDK_DISABLED")); off {
		return false
	}
	if by := os.Getenv("OTEL_TRACES_EXPORTER"); by != "" && by != "otlp" {
		return false
	}
	wanted := c.TraceEndpoint != ""
	for _, name := range traceVariables {
		wanted = wanted || strings.TrimSpace(os.Getenv(name)) != ""
	}
	return wanted
}

// openTraces starts exporting if it is wanted. The SDK takes everything but the endpoint
// from its environment variables: headers, certificates, sampler, queue sizes.
func openTraces(ctx context.Context, cfg Config, id string) (traces, error) {
	if !cfg.tracesWanted() {
		return traces{}, nil
	}
	var options []otlptracehttp.Option
	if cfg.TraceEndpoint != "" {
		to, err := url.JoinPath(cfg.TraceEndpoint, "v1/traces")
		if err != nil {
			return traces{}, fmt.Errorf("node: where traces go: %w", err)
		}
		options = append(options, otlptracehttp.WithEndpointURL(to))
	}
	exporter, err := otlptracehttp.New(ctx, options...)
	if err != nil {
		return traces{}, fmt.Errorf("node: traces: %w", err)
	}
	about, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(
			attribute.String("service.name", "locus"), attribute.String("service.version", cfg.Version), attribute.String("service.instance.id", id),
		),
		resource.WithFromEnv(), // the last one wins
	)
	if err != nil {
		cfg.Log.Warn("what the environment says of this node's traces is not all used", "error", err)
	}
	t := traces{out: newSpanSender(exporter, cfg.Log)}
	bounds := sdktrace.NewSpanLimits()
	if bounds.AttributeValueLengthLimit < 0 {
		bounds.AttributeValueLengthLimit = maxAttribute
	}
	t.provider = sdktrace.NewTracerProvider(sdktrace.WithBatcher(t.out), sdktrace.WithResource(about), sdktrace.WithRawSpanLimits(bounds))
	t.tracer = t.provider.Tracer(tracing.Scope, trace.WithInstrumentationVersion(cfg.Version))
	return t, nil
}

// close exports the remaining spans, within flushLimit.
func (t traces) close() {
	if t.provider == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushLimit)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.out.log.Warn("not all traces could be sent before the end", "error", err)
	}
	t.out.giveUp()
	<-t.out.ended
}

// call starts the span of a call, in the trace of ctx or in a new one.
func (t traces) call(ctx context.Context) context.Context {
	if t.tracer == nil {
		return ctx
	}
	ctx, _ = t.tracer.Start(ctx, tracing.Call, trace.WithSpanKind(trace.SpanKindServer))
	return ctx
}

// serve starts the span of an attempt for another node, if its call is traced: sampling is
// decided on the node where the call came in.
func (t traces) serve(ctx context.Context, callID string) (context.Context, trace.Span) {
	if above := trace.SpanFromContext(ctx); t.tracer == nil || !above.SpanContext().IsValid() {
		return ctx, above
	}
	about := trace.WithAttributes(attribute.String(tracing.CallID, callID))
	return t.tracer.Start(ctx, tracing.Serve, trace.WithSpanKind(trace.SpanKindServer), about)
}

// endCallSpan ends the span of a call and adds its outcome.
func endCallSpan(ctx context.Context, r *calls.Record, res surfaces.Result) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	text := func(key, value string) {
		if value != "" {
			span.SetAttributes(attribute.String(key, value))
		}
	}
	text(tracing.CallID, r.ID)
	text(tracing.Actor, r.Actor)
	text(tracing.Parent, r.Call.Parent)
	text(tracing.Function, r.Call.Function)
	text(tracing.Language, string(deref(res.Language)))
	text(tracing.StateMode, string(deref(res.StateMode)))
	text(tracing.Surface, string(deref(res.Surface)))
	text(tracing.Machine, deref(res.Machine))
	text(tracing.Node, res.Node)
	text(tracing.Status, string(res.Status))
	session := deref(res.SessionName)
	if session == "" && res.SessionID != nil {
		session = strconv.Itoa(*res.SessionID)
	}
	text(tracing.Session, session)
	span.SetAttributes(attribute.Int(tracing.Attempts, res.Attempts))
	if res.Code != nil {
		text(tracing.Code, string(*res.Code))
		span.SetStatus(codes.Error, string(*res.Code)) // without the message, which may quote the caller's input
	}
	span.End()
}

// endRepeatedSpan ends the span of a request that led to an earlier call.
func endRepeatedSpan(ctx context.Context, actor, callID string) {
	span := trace.SpanFromContext(ctx)
	span.SetAttributes(attribute.String(tracing.CallID, callID), attribute.String(tracing.Actor, actor), attribute.Bool(tracing.Repeated, true))
	span.End()
}

// deref returns *p, or the zero value if p is nil.
func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
