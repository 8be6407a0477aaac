package otlp_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/obs/otlp"
)

// environment replaces os.Getenv; variables that the exporter reads itself are set in the process.
func environment(t *testing.T, values map[string]string) func(string) string {
	t.Helper()
	for name, value := range values {
		t.Setenv(name, value)
	}
	return func(name string) string { return values[name] }
}

func TestSpansReachACollector(t *testing.T) {
	received := make(chan *collector.ExportTraceServiceRequest, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, reader := io.Reader(r.Body), error(nil)
		if r.Header.Get("Content-Encoding") == "gzip" {
			body, reader = gzip.NewReader(r.Body)
		}
		raw, err := io.ReadAll(body)
		var request collector.ExportTraceServiceRequest
		if reader != nil || err != nil || proto.Unmarshal(raw, &request) != nil || r.URL.Path != "/v1/traces" {
			http.Error(w, "no spans", http.StatusBadRequest)
			return
		}
		received <- &request
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	defer server.Close()
	tracing, err := otlp.Open(t.Context(), environment(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL,
		"OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test"}), "1.2.3", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, span := obs.Spans(tracing).Start(t.Context(), "attempt notify")
	span.SetAttributes(obs.SpanHandler.String("notify"))
	span.End()
	if err := tracing.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	request := <-received
	about := map[string]string{}
	for _, a := range request.ResourceSpans[0].Resource.Attributes {
		about[a.Key] = a.Value.GetStringValue()
	}
	if about["service.name"] != "waybill" || about["service.version"] != "1.2.3" || about["deployment.environment.name"] != "test" {
		t.Errorf("resource: %v", about)
	}
	got := request.ResourceSpans[0].ScopeSpans[0].Spans[0]
	if got.Name != "attempt notify" || got.Attributes[0].Key != "waybill.handler" {
		t.Errorf("span: %v", got)
	}
}

func TestWithoutACollectorThereAreNoSpans(t *testing.T) {
	for _, values := range []map[string]string{
		{},
		{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"},
	} {
		tracing, err := otlp.Open(t.Context(), func(name string) string { return values[name] }, "1", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, span := obs.Spans(tracing).Start(t.Context(), "x"); span.IsRecording() {
			t.Errorf("%v: a span is recorded", values)
		}
	}
}

func TestAProtocolThatIsNotSpokenIsRefused(t *testing.T) {
	values := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
	if _, err := otlp.Open(t.Context(), func(name string) string { return values[name] }, "1", nil); !fault.Is(err, fault.Invalid) {
		t.Errorf("%v", err)
	}
}
