package placement

import (
	"context"

	"go.opentelemetry.io/otel/attribute"

	"github.com/locusrun/locus/surfaces"
	"github.com/locusrun/locus/surfaces/tracing"
)

// locate is findTarget as a span of the call's trace.
func (p *Placement) locate(ctx context.Context, job *Job) (*target, *surfaces.Refusal) {
	ctx, span := tracing.Start(ctx, tracing.Place)
	defer span.End()
	return p.findTarget(ctx, job)
}

// attempt executes one attempt at its target, as a span of the call's trace.
func (p *Placement) attempt(ctx context.Context, to *target, a surfaces.Attempt) surfaces.Outcome {
	ctx, span := tracing.Start(ctx, tracing.Attempt)
	defer span.End()
	out := to.surface.Execute(ctx, a)
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
