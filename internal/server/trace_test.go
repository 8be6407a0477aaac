package server_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/server"
)

const sender = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// addTraced adds an action through a server with these spans, for a sender with a trace, and returns the stored action.
func addTraced(t *testing.T, provider trace.TracerProvider) queue.ActionState {
	t.Helper()
	w := serveWork(t)
	api := server.New(w.Service, server.Options{Token: homeToken, Tracing: provider})
	s := httptest.NewServer(api.Handler())
	defer s.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/api/v1/actions", strings.NewReader(`{"handler": "work"}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+homeToken)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Traceparent", sender)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	all, err := w.Ledger.Actions(t.Context(), queue.ActionQuery{Handler: "work"})
	if err != nil || len(all) != 1 {
		t.Fatalf("status %d, stored %+v, %v", response.StatusCode, all, err)
	}
	return all[0]
}

func TestRequestsAreSpansAndActionsKnowTheirs(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewInMemoryExporter()
	stored := addTraced(t, sdk.NewTracerProvider(sdk.WithSyncer(spans)))
	all := spans.GetSpans()
	if len(all) != 1 || all[0].Name != "POST /api/v1/actions" || all[0].SpanKind != trace.SpanKindServer {
		t.Fatalf("spans: %+v", all)
	}
	if got := all[0].Parent.TraceID().String(); !strings.Contains(sender, got) {
		t.Errorf("the span's parent is of trace %s, want the sender's", got)
	}
	if want := all[0].SpanContext.SpanID().String(); !strings.Contains(stored.Trace, want) {
		t.Errorf("the action is of %q, want the request's span %s", stored.Trace, want)
	}
}

func TestTheSendersTraceIsKeptWithoutTracing(t *testing.T) {
	t.Parallel()
	if got := addTraced(t, nil).Trace; got != sender {
		t.Errorf("got %q, want %q", got, sender)
	}
}
