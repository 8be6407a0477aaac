package flow_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/flow"
)

// TestTextsOfOthersFitIntoAStatus: the API server takes messages of 32 KiB, and refuses a whole status for a longer one.
func TestTextsOfOthersFitIntoAStatus(t *testing.T) {
	t.Parallel()
	long := "http://sink.example/" + strings.Repeat("a", 40<<10)
	parts := []flow.Part{
		flow.JudgeSink(flow.SinkSeen{Spec: v1alpha1.Sink{URI: long}}).Part,
		flow.JudgeSink(flow.SinkSeen{Spec: v1alpha1.Sink{URI: strings.TrimPrefix(long, "http://sink.example")}}).Part,
		flow.JudgePolicy(flow.PolicySeen{Installed: true, Unreadable: long}),
		flow.JudgeSubscription(flow.SubscriptionSeen{Installed: true, Source: flow.SourcePart{Channel: &flow.Object{}},
			Sink: flow.SinkPart{Part: flow.Part{Message: long}}}),
	}
	for _, c := range flow.Conditions(&v1alpha1.EventFlow{}, parts, time.Now()) {
		if n := len(c.Message); n > 4<<10 {
			t.Errorf("the message of %s %s has %d bytes", c.Type, c.Reason, n)
		}
	}
	status := flow.Status(flow.Found{Sink: flow.SinkPart{Address: &flow.Address{URL: long}}})
	if n := len(status.SinkURI); n > 0 {
		t.Errorf("an address with %d bytes is in the status", n)
	}
}

func TestTextsAreCut(t *testing.T) {
	t.Parallel()
	const most = 1 << 10
	got := flow.Cut(strings.Repeat("ä", most))
	if len(got) > most || len(got) < most-4 || !strings.HasSuffix(got, "ä…") || !utf8.ValidString(got) {
		t.Errorf("got %d bytes that end in %q", len(got), got[len(got)-8:])
	}
	for text, want := range map[string]string{"short?key=kept": "short?key=kept", "a\xff": "a\uFFFD"} {
		if got := flow.Cut(text); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
