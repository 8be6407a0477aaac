package webhook_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/waybill-dev/waybill/internal/conductor/handler/evidence"
	"github.com/waybill-dev/waybill/internal/conductor/handler/webhook"
	"github.com/waybill-dev/waybill/internal/config"
)

// TestEachRequestIsAClientSpan: it is in its attempt's trace, the target receives its id, and it
// has no secret.
func TestEachRequestIsAClientSpan(t *testing.T) {
	t.Parallel()
	for _, status := range []int{204, 500, 0} {
		received := make(chan string, 1)
		address := serve(t, func(w http.ResponseWriter, r *http.Request) {
			received <- r.Header.Get("Traceparent")
			if status == 0 {
				panic(http.ErrAbortHandler)
			}
			w.WriteHeader(status)
		})
		target, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		spans := tracetest.NewInMemoryExporter()
		ctx, attempted := sdk.NewTracerProvider(sdk.WithSyncer(spans)).Tracer("test").Start(t.Context(), "attempt notify")
		setup(t, address, "at-least-once").Do(ctx, attempt(`{"team": "hunter2-hunter2"}`))
		all := spans.GetSpans()
		if len(all) != 1 {
			t.Fatalf("%d: %d spans have ended, want the request's", status, len(all))
		}
		span := all[0]
		if span.Name != http.MethodPost || span.SpanKind != trace.SpanKindClient || span.Parent.SpanID() != attempted.SpanContext().SpanID() {
			t.Errorf("%d: %s span %q below %s", status, span.SpanKind, span.Name, span.Parent.SpanID())
		}
		if want := fmt.Sprintf("00-%s-%s-01", span.SpanContext.TraceID(), span.SpanContext.SpanID()); want != <-received {
			t.Errorf("%d: the target did not receive %s", status, want)
		}
		want := map[string]string{"http.request.method": "POST", "url.scheme": "http", "server.address": "127.0.0.1",
			"server.port": target.Port(),
			"url.full":    address + "/teams/[secret:token]"}
		if status != 0 {
			want["http.response.status_code"] = fmt.Sprint(status)
		}
		got := map[string]string{}
		for _, a := range span.Attributes {
			got[string(a.Key)] = a.Value.String()
		}
		if diff := cmp.Diff(want, got); diff != "" || (span.Status.Code == codes.Error) != (status != 204) {
			t.Errorf("%d: status %+v (-want +got):\n%s", status, span.Status, diff)
		}
		if strings.Contains(fmt.Sprint(span), "hunter2") {
			t.Errorf("%d: a secret is in the span: %+v", status, span)
		}
	}
}

// TestSpansShowNoSecretOfAnAddress: where a secret belongs in an address, its span has the origin
// alone.
func TestSpansShowNoSecretOfAnAddress(t *testing.T) {
	t.Parallel()
	address := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("hunter2/hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := config.Read("server.yaml", fmt.Appendf(nil, `
handlers:
  notify:
    type: webhook
    secrets: [{name: token, type: file, path: %q}]
    request: {url: "%s/{{ urlquery .secrets.token }}", allowNetworks: [127.0.0.0/8]}
`, token, address))
	if err != nil {
		t.Fatal(err)
	}
	spans := tracetest.NewInMemoryExporter()
	ctx, _ := sdk.NewTracerProvider(sdk.WithSyncer(spans)).Tracer("test").Start(t.Context(), "attempt notify")
	webhook.New(config.Handlers["notify"], evidence.Archive{Blobs: setup(t, address, "at-least-once").blobs}).Do(ctx, attempt(`{}`))
	var got []string
	for _, span := range spans.GetSpans() {
		for _, a := range span.Attributes {
			if a.Key == "url.full" {
				got = append(got, a.Value.String())
			}
		}
	}
	if !slices.Equal(got, []string{address + "/"}) {
		t.Errorf("spans have the addresses %q", got)
	}
}
