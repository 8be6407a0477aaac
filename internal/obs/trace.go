package obs

import (
	"context"
	"crypto/sha256"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Attributes of spans.
const (
	SpanActionID  = attribute.Key("waybill.action_id")
	SpanHandler   = attribute.Key("waybill.handler")
	SpanLane      = attribute.Key("waybill.lane")
	SpanAttempt   = attribute.Key("waybill.attempt")
	SpanOutcome   = attribute.Key("waybill.outcome")
	SpanCompleted = attribute.Key("waybill.completed") // completions that a turn was given
	SpanWanted    = attribute.Key("waybill.wanted")    // actions that it asked for
	SpanClaimed   = attribute.Key("waybill.claimed")   // actions that it got
	SpanLate      = attribute.Key("waybill.late")      // completions that the fence refused
	SpanBuildID   = attribute.Key("waybill.build_id")
	SpanStepID    = attribute.Key("waybill.step_id")
	SpanStep      = attribute.Key("waybill.step")   // stage/step
	SpanStatus    = attribute.Key("waybill.status") // status of a build, a step, or an attempt at one
	SpanExitCode  = attribute.Key("waybill.exit_code")
)

// Tracer is the name under which Waybill makes spans.
const Tracer = "github.com/waybill-dev/waybill"

// Spans returns p's tracer of Waybill; without p, one whose spans are dropped.
func Spans(p trace.TracerProvider) trace.Tracer {
	if p == nil {
		p = noop.NewTracerProvider()
	}
	return p.Tracer(Tracer)
}

// Traceparent returns the context's span as W3C Trace Context writes it; "" if it has none.
func Traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier.Get("traceparent")
}

// DeploymentTrace returns the trace of all work for a deployment, on every instance and after every restart: its id is
// derived from the deployment's. log is the ledger's id. No process makes the span itself.
func DeploymentTrace(log, pipeline string, number int64) trace.SpanContext {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s#%d", log, pipeline, number))
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID(sum[:16]), SpanID: trace.SpanID(sum[16:24]),
		TraceFlags: trace.FlagsSampled, Remote: true})
}

// Linked returns the span that a traceparent names; without one, a span that is not valid.
func Linked(traceparent string) trace.SpanContext {
	carrier := propagation.MapCarrier{"traceparent": traceparent}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}
