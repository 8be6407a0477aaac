package conductor

import (
	"context"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/queue"
)

// span begins the span of an attempt. It starts a trace that is linked to the request that enqueued
// the action: an attempt may follow long after the request, and there may be many attempts. All
// attempts for one deployment share a trace.
func (c *Conductor) span(ctx context.Context, a *attempt) (context.Context, trace.Span) {
	if c.cfg.Tracing == nil && a.Step == nil {
		return ctx, noop.Span{}
	}
	var parent trace.SpanContext
	if a.Step != nil {
		parent = obs.DeploymentTrace(c.cfg.LedgerID, a.Step.Pipeline, a.Step.Deployment)
	}
	ctx = trace.ContextWithSpanContext(ctx, parent)
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
		obs.SpanActionID.String(a.ID.String()), obs.SpanHandler.String(a.Handler), obs.SpanLane.String(a.Lane),
		obs.SpanAttempt.Int(a.Thread.Attempt))}
	if enqueued := obs.Linked(a.Trace); enqueued.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: enqueued}))
	}
	return c.tracer.Start(ctx, "attempt "+a.Handler, options...)
}

// endSpan records the outcome of the attempt and ends its span.
func endSpan(span trace.Span, o action.Outcome) {
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(obs.SpanOutcome.String(o.Kind.String()))
	if o.Kind != action.Done {
		span.SetStatus(codes.Error, o.Error)
	}
	span.End()
}

// traced wraps a ledger so that each turn is a span.
type traced struct {
	Ledger
	tracer trace.Tracer
}

// CompleteAndClaim makes a turn within a span that has the numbers of rows as attributes.
func (t traced) CompleteAndClaim(ctx context.Context, owner queue.Instance, completions []queue.Completion,
	wants []queue.Want) (queue.Turned, error) {
	ctx, span := t.tracer.Start(ctx, "turn", trace.WithNewRoot())
	defer span.End()
	wanted := 0
	for _, w := range wants {
		wanted += w.N
	}
	turned, err := t.Ledger.CompleteAndClaim(ctx, owner, completions, wants)
	span.SetAttributes(obs.SpanCompleted.Int(len(completions)), obs.SpanWanted.Int(wanted), obs.SpanClaimed.Int(len(turned.Claimed)),
		obs.SpanLate.Int(len(turned.Late)))
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	return turned, err
}
