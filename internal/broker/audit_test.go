package broker_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/broker"
	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/services"
)

// audit makes an audit, with a call between its looks.
func (w *world) audit(between func()) {
	w.t.Helper()
	check(w.t, w.broker.Load().AuditOnce(w.t.Context(), between))
}

// log returns the id of the world's log.
func (w *world) log() string {
	w.t.Helper()
	id, err := w.ledger.ID(w.t.Context())
	check(w.t, err)
	return id.String()
}

// correcting returns the live actions that an audit has started.
func (w *world) correcting() (all []queue.ActionState) {
	w.t.Helper()
	some, err := w.ledger.Actions(w.t.Context(), queue.ActionQuery{Kind: services.Kind, Limit: 100})
	check(w.t, err)
	for _, one := range some {
		if one.CreatedBy == "audit of the service broker" && one.Thread.Status.Live() {
			all = append(all, one)
		}
	}
	return all
}

// ready returns a service instance that is ready, and has no flow.
func (w *world) readyFlow(id string) {
	w.t.Helper()
	w.send(provisionFlow(id, "plain")).operation()
	w.order(id, "provision "+id)
}

func nothing() {}

func TestAFlowThatIsMissingIsRepaired(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.withFlows()
		w.readyFlow("demo")
		before := w.send(get("demo")).want(200, "").body
		w.audit(nothing)
		w.audit(nothing) // it is being repaired
		if live := w.correcting(); len(live) != 1 {
			t.Fatalf("%d operations", len(live))
		}
		if got := w.send(get("demo")).want(200, "").body; got != before {
			t.Errorf("the platform sees %s", got)
		}
		want := flow.Order{Verb: services.Repair, Instance: "demo", Namespace: "shop", Spec: json.RawMessage(`{"source":{"application":"commerce"}}`),
			WaitForReady: true}
		if diff := cmp.Diff(want, w.order("demo", "repair demo")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		w.send(poll("demo", "")).want(200, "").is(`{"state":"succeeded","description":"done"}`)
		w.send(provisionFlow("demo", "plain")).want(200, "")
	})
}

func TestADeleteCancelsARepair(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.withFlows()
		w.readyFlow("demo")
		w.audit(nothing)
		repair := w.begin("demo")
		w.send(deprovisionFlow("demo")).operation()
		w.order("demo", "deprovision demo")
		if state := w.await(repair.Action.ID, ended); state.Thread.Status != action.Canceled {
			t.Errorf("the repair is %s", state.Thread.Status)
		}
		w.send(poll("demo", "")).want(200, "").is(`{"state":"succeeded","description":"done"}`)
	})
}

func TestAFlowOfADeletedServiceInstanceIsRemoved(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.withFlows()
		w.readyFlow("demo")
		w.send(deprovisionFlow("demo")).operation()
		w.order("demo", "deprovision demo")
		w.addFlow("shop", "demo", w.log(), nil)
		w.audit(nothing)
		want := flow.Order{Verb: services.Deprovision, Instance: "demo", Namespace: "shop", WaitForReady: true}
		if diff := cmp.Diff(want, w.order("demo", "deprovision demo")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		w.send(poll("demo", "")).want(200, "").is(`{"state":"succeeded","description":"done"}`)
		w.send(get("demo")).want(404, "NotFound")
	})
}

// TestAuditsLeaveAloneWhatTheyDoNotKnow: an empty database must never delete a flow that works.
func TestAuditsLeaveAloneWhatTheyDoNotKnow(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.withFlows()
		registry := prometheus.NewRegistry()
		w.count(registry)
		w.addFlow("shop", "unknown", w.log(), nil)
		w.readyFlow("gone")
		w.send(deprovisionFlow("gone")).operation()
		w.order("gone", "deprovision gone")
		w.addFlow("shop", "gone", "01000000-0000-7000-8000-000000000001", nil)
		w.readyFlow("well")
		w.addFlow("shop", "well", w.log(), nil)
		w.send(provision("folder")).operation()
		w.finish("folder", done("made"))
		w.audit(nothing)
		if live := w.correcting(); len(live) != 0 {
			t.Errorf("the audit starts %s", live[0].Name)
		}
		if got := gauge(t, registry, "waybill_broker_orphans"); got != 2 {
			t.Errorf("%v orphans, want 2", got)
		}
	})
}

func TestAuditsActOnWhatTheySeeTwice(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.withFlows()
		w.readyFlow("demo")
		w.audit(func() { w.addFlow("shop", "demo", w.log(), nil) })
		w.audit(func() {
			t.Error("there is nothing to see")
		})
		check(t, w.api.Resource(v1alpha1.Resource()).Namespace("shop").Delete(t.Context(), flow.InstanceFlow("demo"), metav1.DeleteOptions{}))
		w.audit(func() { // another operation begins
			w.send(update("demo", 0).with("service_id", "events").with("parameters", fields{"delivery": fields{"retry": 1}})).operation()
			w.order("demo", "update demo")
		})
		if live := w.correcting(); len(live) != 0 {
			t.Errorf("the audit starts %s", live[0].Name)
		}
		w.api.Before(func(kubetest.Request) error { return errors.New("the API server is away") })
		if err := w.broker.Load().AuditOnce(t.Context(), nothing); err == nil {
			t.Error("a cluster that does not answer is audited")
		}
	})
}

// TestTwoBrokersMakeOneCorrection: all brokers audit, and each has seen the difference twice before either corrects it.
func TestTwoBrokersMakeOneCorrection(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.withFlows()
		var want []string
		for i := range 8 {
			id := fmt.Sprintf("demo-%d", i)
			w.readyFlow(id)
			if i%2 == 0 {
				want = append(want, "repair "+id)
				continue
			}
			w.send(deprovisionFlow(id)).operation()
			w.order(id, "deprovision "+id)
			w.addFlow("shop", id, w.log(), nil)
			want = append(want, "deprovision "+id)
		}
		first := w.broker.Load()
		w.serveBroker()
		var both, running sync.WaitGroup
		both.Add(2)
		for _, b := range []*broker.Broker{first, w.broker.Load()} {
			running.Go(func() {
				err := b.AuditOnce(t.Context(), func() {
					both.Done()
					both.Wait()
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		running.Wait()
		var got []string
		for _, one := range w.correcting() {
			got = append(got, one.Name)
		}
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// gauge returns the value of a metric.
func gauge(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	all, err := registry.Gather()
	check(t, err)
	for _, family := range all {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("%s is missing", name)
	return 0
}

// TestAuditsIgnoreForgedFlows: an author of flows writes the annotations of another namespace's service instance, or another name.
func TestAuditsIgnoreForgedFlows(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.withFlows()
		registry := prometheus.NewRegistry()
		w.count(registry)
		w.readyFlow("gone")
		w.send(deprovisionFlow("gone")).operation()
		w.order("gone", "deprovision gone")
		w.readyFlow("here")
		w.readyFlow("missing")
		w.addFlow("shop", "here", w.log(), nil)
		for _, id := range []string{"gone", "here", "missing"} {
			w.addFlow("evil", id, w.log(), nil)
			w.addForged("shop", "forged-"+id, id)
		}
		w.addForged("evil", "long", strings.Repeat("x", 1<<17))
		w.audit(nothing)
		live := w.correcting()
		if len(live) != 1 || live[0].Name != "repair missing" {
			t.Errorf("the audit starts %d operations", len(live))
		}
		if got := gauge(t, registry, "waybill_broker_orphans"); got != 7 {
			t.Errorf("%v orphans, want 7", got)
		}
	})
}

// addForged stores a flow with the marks of a service instance and a name of its own.
func (w *world) addForged(namespace, name, id string) {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"source": map[string]any{"application": "commerce"}}}}
	object.SetAPIVersion(v1alpha1.APIVersion)
	object.SetKind(v1alpha1.Kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	object.SetLabels(map[string]string{flow.LabelInstance: flow.InstanceHash(id)})
	object.SetAnnotations(map[string]string{flow.AnnotationID: id, flow.AnnotationLog: w.log()})
	w.api.Add(v1alpha1.Resource(), object)
}

// TestOneCorrectionThatFailsDoesNotKeepOthersBack: the audit reports it, and starts the rest.
func TestOneCorrectionThatFailsDoesNotKeepOthersBack(t *testing.T) {
	t.Parallel()
	w := start(t, openSQLite)
	w.withFlows()
	ids := []string{"a", "b", "c", "d"}
	for _, id := range ids {
		w.readyFlow(id)
	}
	w.away.failing = "b"
	if err := w.broker.Load().AuditOnce(t.Context(), nothing); err == nil || !strings.Contains(err.Error(), `"b"`) {
		t.Errorf("the audit reports %v", err)
	}
	if live := w.correcting(); len(live) != len(ids)-1 {
		t.Errorf("the audit starts %d operations, want %d", len(live), len(ids)-1)
	}
}
