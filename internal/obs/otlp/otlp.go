// Package otlp sends spans to an OpenTelemetry collector. It is apart from package obs because its exporter brings gRPC and
// Protocol Buffers with it, which the packages that only make spans do without.
package otlp

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/obs"
)

// Tracing exports spans. Close it after the last span has ended.
type Tracing struct {
	trace.TracerProvider
	close func(context.Context) error
}

// flushWithin bounds how long the end of a process waits until its last spans are sent.
const flushWithin = 5 * time.Second

// Open sends spans to the collector that the standard OTEL_ variables name; without one it drops them.
// environment is a function such as os.Getenv; the exporter reads the rest of the variables itself.
func Open(ctx context.Context, environment func(string) string, version string, log *slog.Logger) (*Tracing, error) {
	if !wanted(environment) {
		return Nowhere(), nil
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
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "waybill"),
		attribute.String("service.version", version)),
		resource.WithHost(), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fault.New(fault.Invalid, "describe this process to the collector as the OTEL_ variables say: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { obs.Component(log, "trace").Warn("spans are lost", obs.Error(err)) }))
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(about))
	return &Tracing{TracerProvider: provider, close: provider.Shutdown}, nil
}

// Nowhere drops spans.
func Nowhere() *Tracing {
	return &Tracing{TracerProvider: noop.NewTracerProvider(), close: func(context.Context) error { return nil }}
}

// wanted reports whether the environment names a collector, and does not switch tracing off.
func wanted(environment func(string) string) bool {
	if environment("OTEL_SDK_DISABLED") == "true" || environment("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return environment("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || environment("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// Close sends the spans that have ended, within a few seconds.
func (t *Tracing) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, flushWithin)
	defer cancel()
	return t.close(ctx)
}
