package tracing

import (
	"context"
	"net/http"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestATraceTravels(t *testing.T) {
	h := http.Header{"Traceparent": {parent}, "Tracestate": {"vendor=value"}}
	ctx := FromHeader(t.Context(), h)
	ctx = WithSpanOf(context.Background(), ctx)
	ctx = Inject(ctx).Extract(context.Background())
	got := http.Header{}
	ToHeader(ctx, got)
	if got.Get("traceparent") != parent || got.Get("tracestate") != "vendor=value" {
		t.Errorf("got %v", got)
	}
	got = http.Header{}
	ToHeader(FromMeta(t.Context(), map[string]any{"traceparent": parent, "tracestate": "vendor=value"}), got)
	if got.Get("traceparent") != parent || got.Get("tracestate") != "vendor=value" {
		t.Errorf("got %v", got)
	}
}

func TestWhatIsNoTrace(t *testing.T) {
	for name, ctx := range map[string]context.Context{
		"nothing":             t.Context(),
		"no header":           FromHeader(t.Context(), http.Header{}),
		"a malformed header":  FromHeader(t.Context(), http.Header{"Traceparent": {"00-0af7"}}),
		"all zeros":           FromHeader(t.Context(), http.Header{"Traceparent": {"00-00000000000000000000000000000000-b7ad6b7169203331-01"}}),
		"no meta":             FromMeta(t.Context(), nil),
		"meta of other types": FromMeta(t.Context(), map[string]any{"traceparent": 1, "tracestate": []any{}}),
		"a malformed message": Carrier{"traceparent": "x"}.Extract(t.Context()),
	} {
		if sc := trace.SpanContextFromContext(ctx); sc.IsValid() || Inject(ctx) != nil {
			t.Errorf("%s is taken for %v", name, sc)
		}
		h := http.Header{}
		if ToHeader(ctx, h); len(h) > 0 {
			t.Errorf("%s becomes %v", name, h)
		}
	}
}

// recorded gives a context with a span that is recorded, and what has ended below it.
func recorded(t testing.TB) (context.Context, func() []string) {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	ctx, top := provider.Tracer(Scope).Start(context.Background(), Call)
	return ctx, func() (names []string) {
		for _, s := range spans.Ended() {
			if s.Parent().SpanID() != top.SpanContext().SpanID() {
				t.Errorf("%s is not below the call", s.Name())
			}
			names = append(names, s.Name())
		}
		return names
	}
}

func TestStagesFollowOneAnother(t *testing.T) {
	ctx, ended := recorded(t)
	var s Stages
	s.End()
	s.Next(ctx, Queue)
	s.Next(ctx, Run)
	if got := ended(); len(got) != 1 || got[0] != Queue {
		t.Errorf("got %v, want 1, got[0] %v", got, Queue)
	}
	s.End()
	s.End()
	if got := ended(); len(got) != 2 || got[1] != Run {
		t.Errorf("got %v, want 2, got[1] %v", got, Run)
	}
}

// off is all that a call does here where it is not traced.
func off(ctx context.Context, h http.Header) {
	ctx = WithSpanOf(ctx, FromHeader(ctx, h))
	for _, name := range []string{Validate, Place, Attempt, Route} {
		_, span := Start(ctx, name)
		span.End()
	}
	var s Stages
	s.Next(ctx, Queue)
	s.Next(ctx, Prepare)
	s.Next(ctx, Run)
	s.End()
	if Inject(ctx) != nil {
		panic("there is no trace")
	}
}

func TestACallThatIsNotTracedAllocatesNothing(t *testing.T) {
	ctx, h := t.Context(), http.Header{"Accept": {"*/*"}}
	if n := testing.AllocsPerRun(100, func() { off(ctx, h) }); n > 0 {
		t.Errorf("it allocates %v times", n)
	}
}

func BenchmarkACallThatIsNotTraced(b *testing.B) {
	b.ReportAllocs()
	ctx, h := b.Context(), http.Header{"Accept": {"*/*"}}
	for b.Loop() {
		off(ctx, h)
	}
}
