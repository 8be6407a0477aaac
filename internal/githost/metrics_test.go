package githost_test

import (
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/waybill-dev/waybill/internal/githost"
	"github.com/waybill-dev/waybill/internal/githost/githosttest"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/webhook"
)

func TestMetricsCountAnswersAndShowTheRestOfTheBudget(t *testing.T) {
	t.Parallel()
	h := githosttest.New(t, githost.Gitea)
	host := h.Config(githosttest.Branch)
	number := mustAttempt(t, h, host, githosttest.Work(host, 12, "6.6.0")).Proposal.Number
	registry, metrics := prometheus.NewPedanticRegistry(), obs.NewGitHost()
	metrics.Register(registry)
	hosts := githost.NewHosts(githost.Options{PlainHTTP: true, Pause: time.Millisecond, Metrics: metrics,
		Guard: webhook.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})
	t.Cleanup(hosts.Close)
	c, err := hosts.Open(host, h.Keys())
	if err != nil {
		t.Fatal(err)
	}
	h.ConfirmUnchanged()
	h.Report(1000, time.Now().Add(time.Hour))
	for _, status := range []int{0, 0, 500, 403, 429} { // 0: no fault; the second answers are unchanged
		if status != 0 {
			h.Inject(githosttest.Fault{Match: "^GET .*/pulls/", Status: status})
		}
		if _, err := c.Watch(t.Context(), number); (err != nil) != (status != 0) {
			t.Fatalf("%d: %v", status, err)
		}
	}
	metrics.Raced()
	values := map[string]float64{}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(host.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, one := range family.GetMetric() {
			key := family.GetName()
			for _, label := range one.GetLabel() {
				if label.GetName() != "host" {
					key += " " + label.GetValue()
				} else if label.GetValue() != at.Host {
					t.Errorf("%s is of the host %q, want %q", key, label.GetValue(), at.Host)
				}
			}
			values[key] = one.GetCounter().GetValue() + one.GetGauge().GetValue()
		}
	}
	left := values["waybill_githost_rate_remaining"]
	delete(values, "waybill_githost_rate_remaining")
	const requests = "waybill_githost_requests_total "
	want := map[string]float64{requests + "ok checks": 1, requests + "unchanged checks": 1,
		requests + "ok get": 1, requests + "unchanged get": 1,
		requests + "ok commits": 1, requests + "retry get": 1, requests + "fatal get": 1, requests + "throttle get": 1,
		"waybill_githost_push_races_total": 1}
	if !maps.Equal(values, want) || left < 990 || left >= 1000 {
		t.Errorf("metrics %v, want %v; %v requests left", slices.Sorted(maps.Keys(values)), slices.Sorted(maps.Keys(want)), left)
	}
}
