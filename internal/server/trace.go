package server

import (
	"net/http"
	"strings"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// withTracing makes a span of each request, as a part of its sender's trace. Without a provider it makes no span, but still
// passes the sender's trace on: actions that the request creates are linked to it.
func withTracing(next http.Handler, provider trace.TracerProvider) http.Handler {
	if provider == nil {
		provider = noop.NewTracerProvider()
	}
	return otelhttp.NewHandler(next, "", otelhttp.WithTracerProvider(provider), otelhttp.WithPropagators(propagation.TraceContext{}),
		otelhttp.WithFilter(wantsSpan), otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string {
			if r.Pattern == "" {
				return r.Method
			}
			method, route, found := strings.Cut(r.Pattern, " ")
			if !found {
				method, route = r.Method, r.Pattern
			}
			return method + " " + route
		}))
}

// wantsSpan reports whether a request gets a span. Frequent requests get none, and neither do streams, whose duration
// is only that of an open window.
func wantsSpan(r *http.Request) bool {
	return !isHealth(r.URL.Path) && r.URL.Path != "/metrics" && !strings.HasPrefix(r.URL.Path, "/assets/") &&
		!strings.Contains(r.Header.Get("Accept"), "text/event-stream")
}
