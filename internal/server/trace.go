package server

import (
	"net/http"
	"strings"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// withTracing makes a span of each request, as a part of its sender's trace. Without a provider no span is made, and the
// sender's is known all the same: actions that the request orders are linked to it.
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

// wantsSpan leaves out what is asked all the time, and streams, which end when somebody closes a window.
func wantsSpan(r *http.Request) bool {
	return !isHealth(r.URL.Path) && r.URL.Path != "/metrics" && !strings.HasPrefix(r.URL.Path, "/assets/") &&
		!strings.Contains(r.Header.Get("Accept"), "text/event-stream")
}
