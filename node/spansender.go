package node

import (
	"context"
	"log/slog"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// spanSender sends spans. The log says when that begins to fail and when it goes again, not
// each time: a collector that is away is no matter of each call. The SDK uses one method at a time.
type spanSender struct {
	to      sdktrace.SpanExporter
	log     *slog.Logger
	life    context.Context
	giveUp  context.CancelFunc // what is being sent
	ended   chan struct{}      // closed when nothing is sent any more
	failing bool
	lost    int // spans, since it began to fail
}

var _ sdktrace.SpanExporter = (*spanSender)(nil)

func newSpanSender(to sdktrace.SpanExporter, log *slog.Logger) *spanSender {
	s := &spanSender{to: to, log: log, ended: make(chan struct{})}
	s.life, s.giveUp = context.WithCancel(context.Background())
	return s
}

// ExportSpans sends some.
func (s *spanSender) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	err := s.to.ExportSpans(ctx, spans)
	switch {
	case err != nil:
		s.lost += len(spans)
		if !s.failing {
			s.log.Warn("traces cannot be sent; what is not sent is lost", "error", err)
		}
	case s.failing:
		s.log.Info("traces are sent again", "spans_lost", s.lost)
		s.lost = 0
	}
	s.failing = err != nil
	return nil // it has been told
}

// Shutdown ends the sending.
func (s *spanSender) Shutdown(ctx context.Context) error {
	defer close(s.ended)
	return s.to.Shutdown(ctx)
}
