package worker

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/obs"
)

// spans is the trace of a build: its own span, below it one of each step that begins, and below that one of each attempt. Where
// spans go nowhere, all three are the span that started the build.
type spans struct {
	tracer   trace.Tracer
	steps    map[int]context.Context // 0: the build
	attempts map[int]trace.Span
}

func newSpans(p trace.TracerProvider) spans {
	return spans{obs.Spans(p), map[int]context.Context{}, map[int]trace.Span{}}
}

// build begins the trace, linked to the span that a traceparent names.
func (s spans) build(ctx context.Context, id, from string) context.Context {
	options := []trace.SpanStartOption{trace.WithNewRoot(), trace.WithAttributes(obs.SpanBuildID.String(id))}
	if started := obs.Linked(from); started.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, started)
		options = append(options, trace.WithLinks(trace.Link{SpanContext: started}))
	}
	ctx, _ = s.tracer.Start(ctx, "build", options...)
	s.steps[0] = ctx
	return ctx
}

// attempt begins the span of an attempt at a step, and with the first one that of the step.
func (s spans) attempt(ctx context.Context, step build.PlanStep, number int) context.Context {
	about := []attribute.KeyValue{obs.SpanStepID.Int(step.ID), obs.SpanStep.String(step.Path())}
	of, begun := s.steps[step.ID]
	if !begun {
		of, _ = s.tracer.Start(ctx, "step "+step.Path(), trace.WithAttributes(about...))
		s.steps[step.ID] = of
	}
	ctx, s.attempts[step.ID] = s.tracer.Start(of, "attempt "+step.Path(), trace.WithAttributes(append(about, obs.SpanAttempt.Int(number))...))
	return ctx
}

// changed ends the spans that end with a status, whose reason has no passwords.
func (s spans) changed(id int, u build.Update) {
	if u.Status != build.Backoff && !u.Status.Ended() {
		return
	}
	if span, ok := s.attempts[id]; ok {
		endSpan(span, u)
		delete(s.attempts, id)
	}
	if ctx, ok := s.steps[id]; ok && u.Status.Ended() {
		endSpan(trace.SpanFromContext(ctx), u)
		delete(s.steps, id)
	}
}

func endSpan(span trace.Span, u build.Update) {
	span.SetAttributes(obs.SpanStatus.String(string(u.Status)))
	if u.ExitCode != nil {
		span.SetAttributes(obs.SpanExitCode.Int(*u.ExitCode))
	}
	if u.Status.Broken() || u.Status == build.Backoff {
		span.SetStatus(codes.Error, u.Reason)
	}
	span.End()
}

// abandon ends the spans of a build that cannot be recorded.
func (s spans) abandon(cause error) {
	for _, span := range s.attempts {
		span.SetStatus(codes.Error, cause.Error())
		span.End()
	}
	for _, ctx := range s.steps {
		span := trace.SpanFromContext(ctx)
		span.SetStatus(codes.Error, cause.Error())
		span.End()
	}
}
