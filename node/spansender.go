package node

import (
	"context"
	"log/slog"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// spanSender exports spans. It logs when exporting begins to fail and when it works again,
// not every failure. The SDK calls one method at a time.
type spanSender struct {
	to      sdktrace.SpanExporter
	log     *slog.Logger
	life    context.Context
	giveUp  context.CancelFunc // cancels an export in progress
	ended   chan struct{}      // closed when Shutdown has returned
	failing bool
	lost    int // spans lost since it began to fail
}

var _ sdktrace.SpanExporter = (*spanSender)(nil)

func newSpanSender(to sdktrace.SpanExporter, log *slog.Logger) *spanSender {
	s := &spanSender{to: to, log: log, ended: make(chan struct{})}
	s.life, s.giveUp = context.WithCancel(context.Background())
	return s
}

// ExportSpans exports spans. It always returns nil, as it logs errors itself.
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
	return nil // logged above
}

// Shutdown ends the exporter.
func (s *spanSender) Shutdown(ctx context.Context) error {
	defer close(s.ended)
	return s.to.Shutdown(ctx)
}
