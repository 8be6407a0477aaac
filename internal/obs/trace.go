package obs

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/waybill-dev/waybill/internal/fault"
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
)

// Tracer is the name under which Waybill makes spans.
const Tracer = "github.com/waybill-dev/waybill"

// Tracing is where spans go. Close it when nothing makes any more.
type Tracing struct {
	trace.TracerProvider
	close func(context.Context) error
}

// flushWithin bounds how long the end of a process waits for its last spans to be taken.
const flushWithin = 5 * time.Second

// OpenTracing sends spans to the collector that the standard OTEL_ variables name, if they name
// one. environment is such as os.Getenv; the exporter reads the rest of the variables itself.
func OpenTracing(ctx context.Context, environment func(string) string, version string, log *slog.Logger) (*Tracing, error) {
	if !tracingWanted(environment) {
		return NoTracing(), nil
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if protocol := environment(name); protocol != "" && protocol != "http/protobuf" {
			return nil, fault.New(fault.Invalid, "%s is %q: spans are sent by http/protobuf", name, protocol).
				WithHint("a collector takes both; its port for HTTP is 4318")
		}
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fault.New(fault.Invalid, "send spans as the OTEL_ variables say: %w", err)
	}
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "waybill"), attribute.String("service.version", version)),
		resource.WithHost(), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fault.New(fault.Invalid, "describe this process to the collector as the OTEL_ variables say: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { Component(log, "trace").Warn("spans are lost", Error(err)) }))
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(about))
	return &Tracing{TracerProvider: provider, close: provider.Shutdown}, nil
}

// NoTracing makes spans that go nowhere. What others send of theirs is handed on all the same.
func NoTracing() *Tracing {
	return &Tracing{TracerProvider: noop.NewTracerProvider(), close: func(context.Context) error { return nil }}
}

// tracingWanted reports whether the environment names a collector, and does not switch tracing off.
func tracingWanted(environment func(string) string) bool {
	if environment("OTEL_SDK_DISABLED") == "true" || environment("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return environment("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || environment("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// Close sends what is left, within a few seconds.
func (t *Tracing) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, flushWithin)
	defer cancel()
	return t.close(ctx)
}

// Spans returns Waybill's tracer of p; for a nil p its spans are not recorded.
func Spans(p trace.TracerProvider) trace.Tracer {
	if p == nil {
		p = noop.NewTracerProvider()
	}
	return p.Tracer(Tracer)
}

// Traceparent returns the context's span in the form of W3C Trace Context; "" if it has none.
func Traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier.Get("traceparent")
}

// DeploymentTrace returns the trace of everything that is done for a deployment. Its id is derived
// from the deployment's, so every instance computes the same one, also after a restart. log is the
// ledger's id. No span with the returned span id is ever recorded.
func DeploymentTrace(log, pipeline string, number int64) trace.SpanContext {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s#%d", log, pipeline, number))
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID(sum[:16]), SpanID: trace.SpanID(sum[16:24]),
		TraceFlags: trace.FlagsSampled, Remote: true})
}

// Linked returns the span that a traceparent names; it is not valid if the text is none.
func Linked(traceparent string) trace.SpanContext {
	carrier := propagation.MapCarrier{"traceparent": traceparent}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}
