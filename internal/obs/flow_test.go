package obs

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestFlowsAreCountedWhileAnInstanceWorks(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	f := NewFlow(registry)
	f.Wrote("create", "Broker")
	f.Wrote("create", "Broker")
	f.Conflicted()
	f.Swept()
	counters := `
# HELP waybill_flow_claim_conflicts_total Writes of claims that were refused, since the object had changed.
# TYPE waybill_flow_claim_conflicts_total counter
waybill_flow_claim_conflicts_total 1
# HELP waybill_flow_stale_claims_total Sweeps that removed claims of flows that are gone.
# TYPE waybill_flow_stale_claims_total counter
waybill_flow_stale_claims_total 1
# HELP waybill_flow_writes_total Write requests, by verb and kind; constant at rest.
# TYPE waybill_flow_writes_total counter
waybill_flow_writes_total{kind="Broker",verb="create"} 2
`
	census := `
# HELP waybill_flow_claims Claims of flows on these objects.
# TYPE waybill_flow_claims gauge
waybill_flow_claims 5
# HELP waybill_flow_deletion_blocked Flows whose deletion has not finished within five minutes.
# TYPE waybill_flow_deletion_blocked gauge
waybill_flow_deletion_blocked 1
# HELP waybill_flow_flows EventFlows, by the status and the reason of their condition Ready.
# TYPE waybill_flow_flows gauge
waybill_flow_flows{ready="False",reason="ChannelNotFound"} 1
waybill_flow_flows{ready="True",reason="Ready"} 3
# HELP waybill_flow_informers Running informers, by the kind of their objects.
# TYPE waybill_flow_informers gauge
waybill_flow_informers{kind="Broker"} 1
# HELP waybill_flow_shared_objects Objects that were created for flows.
# TYPE waybill_flow_shared_objects gauge
waybill_flow_shared_objects 2
`
	names := []string{"waybill_flow_claims", "waybill_flow_deletion_blocked", "waybill_flow_flows", "waybill_flow_informers",
		"waybill_flow_shared_objects", "waybill_flow_writes_total", "waybill_flow_claim_conflicts_total", "waybill_flow_stale_claims_total"}
	want := func(when, text string) {
		t.Helper()
		if err := testutil.GatherAndCompare(registry, strings.NewReader(text), names...); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	want("before it works", counters)
	end := f.Lead(func() FlowCensus {
		return FlowCensus{Flows: map[FlowState]int{{"True", "Ready"}: 3, {"False", "ChannelNotFound"}: 1}, SharedObjects: 2, Claims: 5,
			DeletionBlocked: 1, Informers: map[string]int{"Broker": 1}}
	})
	want("while it works", counters+census)
	end()
	want("after it worked", counters)
}

func TestPassesAndReadinessAreMeasured(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	f, none, some := NewFlow(registry), error(nil), errors.New("away")
	f.Pass(time.Now(), &none)
	f.Pass(time.Now(), &some)
	f.BecameReady(time.Now().Add(-time.Minute))
	for name, want := range map[string]int{"waybill_flow_reconcile_seconds": 2, "waybill_flow_time_to_ready_seconds": 1} {
		if got, err := testutil.GatherAndCount(registry, name); err != nil || got != want {
			t.Errorf("%s: got %d series, %v, want %d", name, got, err, want)
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "waybill_flow_time_to_ready_seconds" {
			if sum := family.GetMetric()[0].GetHistogram().GetSampleSum(); sum < 60 {
				t.Errorf("got %f seconds, want at least a minute", sum)
			}
		}
	}
}

func TestMetricsOfFlowsMayBeAbsent(t *testing.T) {
	t.Parallel()
	var f *Flow
	err := errors.New("away")
	f.Pass(time.Now(), &err)
	f.Wrote("patch", "Broker")
	f.BecameReady(time.Now())
	f.Conflicted()
	f.Swept()
	f.Lead(func() FlowCensus { t.Error("read without metrics"); return FlowCensus{} })()
}
