package placement

import (
	"context"

	"go.opentelemetry.io/otel/attribute"

	"github.com/locusrun/locus/surfaces"
	"github.com/locusrun/locus/surfaces/tracing"
)

// place is settle as a span of the call's trace.
func (p *Placement) place(ctx context.Context, job *Job) (*place, *surfaces.Refusal) {
	ctx, span := tracing.Start(ctx, tracing.Place)
	defer span.End()
	return p.settle(ctx, job)
}

// attempt has one attempt executed at its place, as a span of the call's trace.
func (p *Placement) attempt(ctx context.Context, at *place, a surfaces.Attempt) surfaces.Outcome {
	ctx, span := tracing.Start(ctx, tracing.Attempt)
	defer span.End()
	out := at.surface.Execute(ctx, a)
	if !span.IsRecording() {
		return out
	}
	span.SetAttributes(attribute.Int(tracing.Number, a.Number))
	switch {
	case out.Misrouted:
		span.SetAttributes(attribute.Bool(tracing.Misrouted, true))
	case out.Loss != nil:
		span.SetAttributes(attribute.String(tracing.Loss, out.Loss.Reason), attribute.Bool(tracing.MayHaveRun, out.Loss.MayHaveRun))
	}
	if out.Result.Node != "" {
		span.SetAttributes(attribute.String(tracing.Node, out.Result.Node))
	}
	return out
}
