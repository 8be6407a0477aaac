package notification_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/notification"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/webhook"
)

var at = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// secret is the base64 of a key.
const secret = "d2hzZWNfYzJWamNtVjBJRzltSUdFZ2MybHVheUJwYmlCaElIUmxjM1E9"

// request is one that a receiver has received.
type request struct {
	header http.Header
	body   string
}

// receiver returns a handler and its receiver, which answers with a status.
func receiver(t *testing.T, status int) (notification.Notices, string, <-chan request) {
	t.Helper()
	received := make(chan request, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		received <- request{r.Header, string(body)}
		w.WriteHeader(status)
	}))
	t.Cleanup(server.Close)
	api := kubetest.Open()
	api.Add(schema.GroupVersionResource{Version: "v1", Resource: "secrets"},
		&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1",
			"kind": "Secret", "metadata": map[string]any{"name": "sink", "namespace": "apps"}, "data": map[string]any{"secret": secret}}})
	client := webhook.NewClient(webhook.ClientConfig{Guard: webhook.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})
	t.Cleanup(client.Close)
	return notification.Notices{Handler: notification.Handler{Management: api.Cluster("waybill"), Client: client, PlainHTTP: true}},
		server.URL, received
}

// attempt returns the attempt at a notice.
func attempt(t *testing.T, n promotion.Notice) conductor.Attempt {
	t.Helper()
	n.Namespace, n.Pipeline, n.Run, n.Revision, n.Cause, n.At = "apps", "podinfo", 12, "6.6.0", promotion.ByCandidate, at
	parameters, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	return conductor.Attempt{Action: action.Action{ID: action.RandomID(at), Parameters: parameters}}
}

func TestNoticesAreSignedCloudEvents(t *testing.T) {
	t.Parallel()
	h, url, received := receiver(t, http.StatusAccepted)
	a := attempt(t, promotion.Notice{Env: "prod", Occasion: "WaitingApproval", Was: "6.5.4", Message: "1 of 2 approvals <b>",
		Sink: promotion.Sink{URL: url, Secret: "sink"}})
	if o := h.Do(t.Context(), a); o.Kind != action.Done {
		t.Fatalf("outcome: %+v", o)
	}
	got := <-received
	var event map[string]any
	if err := json.Unmarshal([]byte(got.body), &event); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"specversion": "1.0", "id": a.Action.ID.String(), "type": "waybill.promotion.waiting-approval.v1",
		"source": "waybill:apps:podinfo", "subject": "prod", "time": "2026-03-04T05:06:07Z", "datacontenttype": "application/json",
		"data": map[string]any{"namespace": "apps", "pipeline": "podinfo", "run": 12.0, "cause": "candidate", "revision": "6.6.0",
			"was":         "6.5.4",
			"environment": "prod", "occasion": "WaitingApproval", "message": "1 of 2 approvals <b>",
			"text": "apps/podinfo#12: 6.6.0 waits for approval in prod: 1 of 2 approvals <b>"}}
	if diff := cmp.Diff(want, event); diff != "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}
	if id := got.header.Get("webhook-id"); id != a.Action.ID.String() || !strings.HasPrefix(got.header.Get("webhook-signature"), "v1,") {
		t.Errorf("headers: %v", got.header)
	}
}

// Each occasion has a type and a sentence, in which Slack finds neither links nor mentions.
func TestNoticesOfEachOccasion(t *testing.T) {
	t.Parallel()
	h, url, received := receiver(t, http.StatusOK)
	for want, n := range map[string]promotion.Notice{
		"6.6.0 has started": {Occasion: "Started"},
		"6.6.0 is proposed in prod: pull request 7: https://git/7": {Occasion: "Proposed", Env: "prod",
			Message: "pull request 7", URL: "https://git/7"},
		"6.6.0 waits for approval in prod": {Occasion: "WaitingApproval", Env: "prod"},
		"6.6.0 was promoted in prod: pull request 7 is merged: https://git/7": {Occasion: "Promoted", Env: "prod",
			Message: "pull request 7 is merged: https://git/7", URL: "https://git/7"},
		"6.6.0 has finished": {Occasion: "Finished"},
		"6.6.0 has failed in prod: GateFailed: gate &lt;!here&gt; &amp; co": {Occasion: "Failed", Env: "prod", Reason: "GateFailed",
			Message: "gate <!here> & co"},
		"prod was rolled back to 6.6.0": {Occasion: "RolledBack", Env: "prod"},
		"6.6.0 was superseded":          {Occasion: "Superseded"},
	} {
		n.Sink = promotion.Sink{URL: url, Format: "slack"}
		if o := h.Do(t.Context(), attempt(t, n)); o.Kind != action.Done {
			t.Errorf("%s: %+v", n.Occasion, o)
			continue
		}
		var body map[string]string
		if err := json.Unmarshal([]byte((<-received).body), &body); err != nil || len(body) != 1 ||
			body["text"] != "apps/podinfo#12: "+want {
			t.Errorf("%s: got %v, %v; want %q", n.Occasion, body, err, want)
		}
	}
}

// A receiver's refusal, a missing Secret and an address without TLS or outside of the allowed networks have outcomes of their own.
func TestNoticesThatAreNotAccepted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		change func(*notification.Notices, *promotion.Notice)
		want   action.OutcomeKind
		text   string
	}{
		"an error": {500, nil, action.Retry, "answered 500"},
		"busy":     {429, nil, action.Throttle, "refuses work"},
		"gone":     {410, nil, action.Fatal, "gone for good"},
		"no Secret": {200, func(_ *notification.Notices, n *promotion.Notice) { n.Sink.Secret = "other" }, action.Fatal,
			"Secret apps/other not found"},
		"no TLS": {200, func(h *notification.Notices, _ *promotion.Notice) { h.PlainHTTP = false }, action.Fatal, "has no TLS"},
		"not allowed": {200, func(_ *notification.Notices, n *promotion.Notice) { n.Sink.URL = "http://169.254.0.1/" },
			action.Fatal, "169.254.0.1"},
		"no address": {200, func(_ *notification.Notices, n *promotion.Notice) { n.Sink.URL = ":" }, action.Fatal, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, url, _ := receiver(t, c.status)
			n := promotion.Notice{Occasion: "Started", Sink: promotion.Sink{URL: url, Secret: "sink"}}
			if c.change != nil {
				c.change(&h, &n)
			}
			if o := h.Do(t.Context(), attempt(t, n)); o.Kind != c.want || !strings.Contains(o.Error, c.text) {
				t.Errorf("got %+v, want %s: %s", o, c.want, c.text)
			}
		})
	}
}

// The notification of a stage of a waybill.yaml needs no management cluster: it has no Event, and its key is the configuration's.
func TestAStageIsAnnounced(t *testing.T) {
	t.Parallel()
	h, url, received := receiver(t, http.StatusAccepted)
	stage := h.Handler
	stage.Management, stage.Key = nil, func(_ context.Context, name string) (string, error) {
		if name != "ci" {
			return "", fmt.Errorf("secret %q not found", name)
		}
		return "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0", nil
	}
	attempt := func(sink *promotion.Sink) conductor.Attempt {
		parameters, err := json.Marshal(promotion.Work{Namespace: promotion.StageNamespace, Pipeline: "shop", Env: "prod", Revision: "6.6.0",
			Was: "6.5.4", Run: 1, Op: promotion.OpNotify, Sink: sink})
		if err != nil {
			t.Fatal(err)
		}
		return conductor.Attempt{Action: action.Action{ID: action.RandomID(at), Parameters: parameters}}
	}
	if o := stage.Do(t.Context(), attempt(&promotion.Sink{URL: url, Secret: "ci"})); o.Kind != action.Done {
		t.Fatalf("outcome: %+v", o)
	}
	got := <-received
	for _, part := range []string{`"type":"waybill.promotion.requested.v1"`, `"subject":"prod"`, `"revision":"6.6.0"`,
		`"was":"6.5.4"`, `"source":"waybill:waybill.yaml:shop"`} {
		if !strings.Contains(got.body, part) {
			t.Errorf("%s is not in %s", part, got.body)
		}
	}
	if !strings.HasPrefix(got.header.Get("webhook-signature"), "v1,") {
		t.Errorf("headers: %v", got.header)
	}
	for name, sink := range map[string]*promotion.Sink{"no secret": {URL: url, Secret: "other"}, "no webhook": nil} {
		if o := stage.Do(t.Context(), attempt(sink)); o.Kind != action.Fatal {
			t.Errorf("%s: %+v", name, o)
		}
	}
}
