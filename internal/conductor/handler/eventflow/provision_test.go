package eventflow_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
	"github.com/waybill-dev/waybill/internal/services"
)

// The states of the flow a after its first action, and of its EventActivation.
var (
	flowOfA   = `event-flow-a {"delivery":{"retry":3},"source":{"application":"commerce"}} ` + hashOfA + " " + action.ID{1}.String() + " a-log a"
	ordersOfA = "orders managed " + hashOfA + "=shop/event-flow-a"
)

// want compares an outcome, and the objects, with those that a test expects. text is a part of the error or of the output.
func (w *world) want(o action.Outcome, kind action.OutcomeKind, text string, state ...string) {
	w.t.Helper()
	if got := o.Error + string(o.Output); o.Kind != kind || !strings.Contains(got, text) {
		w.t.Errorf("got %s: %s, want %s: %s", o.Kind, got, kind, text)
	}
	if (o.Kind == action.RetryAfter) == o.At.IsZero() {
		w.t.Errorf("%s at %s", o.Kind, o.At)
	}
	if diff := cmp.Diff(state, w.state()); diff != "" {
		w.t.Errorf("objects differ (-want +got):\n%s", diff)
	}
}

// wantWrites compares the requests that have changed something.
func (w *world) wantWrites(want ...string) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.forget()); diff != "" {
		w.t.Errorf("writes differ (-want +got):\n%s", diff)
	}
}

func TestAProvisionMakesTheFlow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.want(w.try(job{1, activated(order(services.Provision))}, 1), action.Done, `{"description":"the flow shop/event-flow-a exists","source":"commerce"}`,
		flowOfA, ordersOfA)
	w.wantWrites("create eventactivations", "create eventflows")
	spec, _ := w.objectsOf(activations)[0].Object["spec"].(map[string]any)
	if diff := cmp.Diff(map[string]any{"displayName": "Orders", "sourceId": "commerce"}, spec); diff != "" {
		t.Error(diff)
	}
	w.want(w.try(job{1, activated(order(services.Provision))}, 2), action.Done, "exists", flowOfA, ordersOfA)
	w.wantWrites()
}

func TestAProvisionWaitsForReady(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	provision := job{1, waiting(order(services.Provision))}
	w.want(w.try(provision, 1), action.RetryAfter, "shop/event-flow-a is not Ready: the role flow has not handled it yet", flowOfA)
	w.status("Ready True 0 of another generation", "Stalled True 0 of another generation")
	w.want(w.try(provision, 2), action.RetryAfter, "has not handled it yet", flowOfA)
	w.status("Ready False 1 Channel is missing")
	w.want(w.try(provision, 3), action.RetryAfter, "is not Ready: Channel is missing", flowOfA)
	w.status("Ready Unknown 1 ")
	w.want(w.try(provision, 4), action.RetryAfter, "is not Ready: Because", flowOfA)
	w.status("Ready True 1 Ready")
	w.want(w.try(provision, 5), action.Done,
		`{"description":"the flow shop/event-flow-a is Ready","sinkUri":"http://broker/shop/default","source":"commerce"}`, flowOfA)
	w.wantWrites()
}

func TestOnlyAStalledFlowFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.try(job{1, order(services.Provision)}, 1)
	w.status("Ready False 1 two Channels", "Stalled True 1 there are two Channels")
	stalled := w.try(job{1, waiting(order(services.Provision))}, 2)
	w.want(stalled, action.Fatal, "shop/event-flow-a is not Ready: there are two Channels", flowOfA)
	if stalled.Code != "Because" {
		t.Errorf("code %q", stalled.Code)
	}
	w.want(w.try(job{1, order(services.Provision)}, 3), action.Done, "exists", flowOfA) // it does not wait
	repaired := strings.ReplaceAll(flowOfA, action.ID{1}.String(), action.ID{2}.String())
	w.want(w.try(job{2, waiting(order(services.Repair))}, 1), action.Done, "exists", repaired)
	w.status("Ready False 1 two Channels", "Stalled False 1 no")
	w.want(w.try(job{2, waiting(order(services.Provision))}, 1), action.RetryAfter, "two Channels", repaired)
}

func TestAnUpdateReplacesTheSpec(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.try(job{1, order(services.Provision)}, 1)
	w.patch(flows, "event-flow-a", `{metadata: {annotations: {theirs: kept}, finalizers: [theirs]}}`)
	w.status("Ready True 1 Ready")
	update := order(services.Update)
	update.Spec = json.RawMessage(`{"source":{"application":"commerce"},"delivery":{"timeout":"PT1S"},"sink":{"broker":{"name":"default"}}}`)
	second := `event-flow-a {"delivery":{"timeout":"PT1S"},"sink":{"broker":{"name":"default"}},"source":{"application":"commerce"}} ` +
		hashOfA + " " + action.ID{2}.String() + " a-log a"
	w.want(w.try(job{2, waiting(update)}, 1), action.RetryAfter, "has not handled it yet", second) // its generation is 2
	w.wantWrites("patch eventflows")
	found := w.objectsOf(flows)[0]
	if found.GetAnnotations()["theirs"] != "kept" || !slices.Equal(found.GetFinalizers(), []string{"theirs"}) {
		t.Errorf("metadata of others is lost: %v", found.Object["metadata"])
	}
	w.patch(flows, "event-flow-a", `{spec: {meshPolicy: None, sink: {broker: {provisioning: Managed}}}}`) // defaults
	w.want(w.try(job{2, update}, 2), action.Done, "exists", strings.NewReplacer(
		`,"sink":{"broker":{"name":"default"}}`, `,"meshPolicy":"None","sink":{"broker":{"name":"default","provisioning":"Managed"}}`).Replace(second))
	w.wantWrites()
	w.patch(flows, "event-flow-a", `{spec: {meshPolicy: null, delivery: {timeout: PT9S}, sink: {broker: {provisioning: null}}}}`) // by hand
	w.want(w.try(job{2, update}, 3), action.Done, "exists", second)
	w.wantWrites("patch eventflows")
}

func TestAFlowOfALostLogIsTakenOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.try(job{1, order(services.Provision)}, 1)
	w.patch(flows, "event-flow-a", `{metadata: {annotations: {flow.waybill.dev/log: lost, flow.waybill.dev/id: null}}}`)
	w.want(w.try(job{1, order(services.Provision)}, 1), action.Done, "exists", flowOfA)
}

func TestAForeignFlowIsAFailure(t *testing.T) {
	t.Parallel()
	for name, labels := range map[string]string{"without the label": "{}", "of another service instance": "{flow.waybill.dev/instance: b}"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.add(flows, "{metadata: {name: event-flow-a, labels: "+labels+"}, spec: {source: {application: theirs}}}")
			before := w.state()
			o := w.try(job{1, order(services.Provision)}, 1)
			w.want(o, action.Fatal, "EventFlow shop/event-flow-a exists and is not of this service instance", before...)
			if o.Code != "conflict" {
				t.Errorf("code %q", o.Code)
			}
			w.want(w.finish(job{2, order(services.Deprovision)}), action.Done, "is deleted", before...)
			w.wantWrites()
		})
	}
}

func TestAFlowThatIsBeingDeletedIsAwaited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.try(job{1, order(services.Provision)}, 1)
	w.patch(flows, "event-flow-a", `{metadata: {finalizers: [held]}}`)
	w.remove(flows, "event-flow-a")
	again := job{2, order(services.Provision)}
	w.want(w.try(again, 1), action.RetryAfter, "EventFlow shop/event-flow-a is being deleted", flowOfA+" being deleted")
	w.patch(flows, "event-flow-a", `{status: {conditions: [{type: Ready, status: "False", reason: DeletionBlocked, message: waits for Broker}]}}`, "status")
	w.want(w.try(again, 2), action.RetryAfter, "is being deleted: waits for Broker", flowOfA+" being deleted")
	w.wantWrites()
	w.patch(flows, "event-flow-a", `{metadata: {finalizers: null}}`)
	w.want(w.try(again, 3), action.Done, "exists", strings.ReplaceAll(flowOfA, action.ID{1}.String(), action.ID{2}.String()))
}

func TestAnswersOfTheAPIServer(t *testing.T) {
	t.Parallel()
	away := errors.New("connection refused")
	conflict := apierrors.NewConflict(flows.GroupResource(), "event-flow-a", errors.New("modified"))
	exists := apierrors.NewAlreadyExists(flows.GroupResource(), "event-flow-a")
	gone := apierrors.NewNotFound(flows.GroupResource(), "event-flow-a")
	quota := refusal(http.StatusForbidden, metav1.StatusReasonForbidden, `eventflows "event-flow-a" is forbidden: exceeded quota`)
	slow := apierrors.NewTooManyRequests("slow down", 7)
	for _, c := range []struct {
		name     string
		verb     string
		resource schema.GroupVersionResource
		err      error
		kind     action.OutcomeKind
		text     string
	}{
		{"no namespace", "create", flows, errNoNamespace, action.RetryAfter, "namespace shop does not exist"},
		{"no namespace for the activation", "create", activations, errNoNamespace, action.RetryAfter, "namespace shop does not exist"},
		{"terminating namespace", "create", flows, errTerminating, action.Fatal, "because it is being terminated"},
		{"terminating for the activation", "create", activations, errTerminating, action.Fatal, "because it is being terminated"},
		{"no right", "create", flows, errNoRight, action.Throttle, `User "waybill" cannot create`},
		{"no right to activations", "get", activations, errNoRight, action.Throttle, `User "waybill" cannot create`},
		{"schema", "create", flows, errSchema, action.BadInput, `Invalid value: "ftp://x/`},
		{"schema of a change", "patch", flows, errSchema, action.BadInput, "want an http or https URL"},
		{"schema of an activation", "create", activations, errSchema, action.BadInput, "create EventActivation shop/orders"},
		{"quota", "create", flows, quota, action.Fatal, "exceeded quota"},
		{"overload", "get", flows, slow, action.Throttle, "slow down"},
		{"failure", "patch", flows, apierrors.NewInternalError(away), action.Throttle, "change EventFlow shop/event-flow-a"},
		{"unreachable", "get", flows, away, action.Throttle, "read EventFlow shop/event-flow-a: connection refused"},
		{"unreachable activation", "get", activations, away, action.Throttle, "read EventActivation shop/orders"},
		{"created by another", "create", flows, exists, action.RetryAfter, "created by another writer"},
		{"activation created by another", "create", activations, exists, action.RetryAfter, "created by another writer"},
		{"changed by another", "patch", flows, conflict, action.RetryAfter, "changed by another writer"},
		{"removed by another", "patch", flows, gone, action.RetryAfter, "changed by another writer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if c.verb == "patch" {
				w.try(job{1, order(services.Provision)}, 1)
			}
			w.refuse = refusing(c.verb, c.resource, c.err)
			o := w.try(job{2, activated(order(services.Provision))}, 1)
			if got := o.Error; o.Kind != c.kind || !strings.Contains(got, c.text) || strings.Contains(got, "secret") {
				t.Errorf("got %s: %s, want %s: %s", o.Kind, got, c.kind, c.text)
			}
			if errors.Is(c.err, slow) && time.Until(o.At) < 6*time.Second {
				t.Errorf("retried at %s", o.At)
			}
			w.refuse = nil
			second := strings.ReplaceAll(flowOfA, action.ID{1}.String(), action.ID{2}.String())
			w.want(w.finish(job{2, activated(order(services.Provision))}), action.Done, "exists", second, ordersOfA)
		})
	}
}

func TestEventFlowsMayBeInstalledLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, flows, activations)
	provision := job{1, activated(order(services.Provision))}
	w.want(w.try(provision, 1), action.RetryAfter, "EventFlows are not installed in the cluster")
	w.api.Install(kinds()[flows])
	w.want(w.try(provision, 2), action.Done, "exists", flowOfA) // without EventActivations
}

// TestAnAttemptWithoutItsClaimWritesNothing: a later operation may have removed the objects that the attempt would create, or created those
// that it would remove.
func TestAnAttemptWithoutItsClaimWritesNothing(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*world){
		"nothing":       func(*world) {},
		"an activation": func(w *world) { w.try(job{1, activated(on("b", order(services.Provision)))}, 1) },
		"a flow": func(w *world) {
			w.try(job{1, order(services.Provision)}, 1)
			w.add(activations, `{metadata: {name: orders}}`)
		},
		"both": func(w *world) { w.try(job{1, activated(order(services.Provision))}, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			prepare(w)
			before := w.state()
			w.forget()
			w.held = func() bool { return false }
			w.want(w.try(job{2, activated(order(services.Provision))}, 1), action.RetryAfter, "the claim on the action may have ended", before...)
			w.want(w.try(job{2, order(services.Provision)}, 1), action.RetryAfter, "the claim on the action may have ended", before...)
			kind, text := action.RetryAfter, "the claim on the action may have ended"
			if name != "a flow" && name != "both" { // neither is of this service instance
				kind, text = action.Done, "is deleted"
			}
			w.want(w.try(job{2, order(services.Deprovision)}, 1), kind, text, before...)
			w.wantWrites()
		})
	}
}

func TestPausesDouble(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for number, want := range []time.Duration{1, 1, 2, 4, 8, 15, 15, 15} {
			o := w.try(job{1, waiting(order(services.Provision))}, number)
			if got := time.Until(o.At); got != want*time.Second {
				t.Errorf("attempt %d: a pause of %s, want %d s", number, got, want)
			}
		}
	})
}

func TestAFaultyOrderIsRefused(t *testing.T) {
	t.Parallel()
	good, err := json.Marshal(order(services.Provision))
	if err != nil {
		t.Fatal(err)
	}
	for patch, want := range map[string]string{
		`[]`:              "read the order",
		`{"verb":"bind"}`: `verb "bind"`,
		`{"instance":""}`: "instance: want an id",
		fmt.Sprintf(`{"instance":%q}`, strings.Repeat("x", 256)): "of 1 to 255 bytes",
		`{"namespace":""}`:                 `namespace ""`,
		`{"namespace":"shop/../x"}`:        "want the name of a namespace",
		`{"spec":null}`:                    "spec: want",
		`{"spec":[]}`:                      "spec: want",
		`{"activation":{"service":"A/B"}}`: `activation.service "A/B"`,
		`{"activation":{}}`:                `activation.service ""`,
	} {
		raw := json.RawMessage(patch)
		if patch != "[]" {
			fields := map[string]json.RawMessage{}
			if err := errors.Join(json.Unmarshal(good, &fields), json.Unmarshal(raw, &fields)); err != nil {
				t.Fatal(err)
			}
			if raw, err = json.Marshal(fields); err != nil {
				t.Fatal(err)
			}
		}
		w := newWorld(t)
		w.refuse = func(r kubetest.Request) error { t.Errorf("%s: %v", patch, r); return nil }
		o := w.handler.Do(t.Context(), conductor.Attempt{Action: action.Action{Parameters: raw}})
		if o.Kind != action.BadInput || o.Code != "invalid_parameters" || !strings.Contains(o.Error, want) {
			t.Errorf("%s: got %s %s: %s, want %s", patch, o.Kind, o.Code, o.Error, want)
		}
	}
}
