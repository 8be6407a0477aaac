package eventflow_test

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/services"
)

func TestADeprovisionEndsWhenTheFlowIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.try(job{1, activated(order(services.Provision))}, 1)
	w.patch(flows, "event-flow-a", `{metadata: {finalizers: [held]}}`)
	deprovision := job{2, order(services.Deprovision)} // it does not know the EventActivation
	w.want(w.try(deprovision, 1), action.RetryAfter, "EventFlow shop/event-flow-a is being deleted", flowOfA+" being deleted")
	w.wantWrites("delete eventactivations", "delete eventflows")
	w.want(w.try(deprovision, 2), action.RetryAfter, "is being deleted", flowOfA+" being deleted")
	w.wantWrites()
	w.patch(flows, "event-flow-a", `{metadata: {finalizers: null}}`)
	w.want(w.try(deprovision, 3), action.Done, `{"description":"the flow shop/event-flow-a is deleted"}`)
	w.want(w.try(deprovision, 4), action.Done, "is deleted")
	w.wantWrites()
}

func TestADeprovisionDeletesAllFlowsOfTheServiceInstance(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.try(job{1, order(services.Provision)}, 1)
	w.try(job{1, on("b", order(services.Provision))}, 1)
	w.add(flows, `{metadata: {name: former, labels: {flow.waybill.dev/instance: `+hashOfA+`}}, spec: {}}`)
	w.add(flows, `{metadata: {name: theirs}, spec: {}}`)
	w.want(w.finish(job{2, order(services.Deprovision)}), action.Done, "is deleted", strings.NewReplacer("event-flow-a", "event-flow-b",
		hashOfA, hashOfB, "a-log a", "a-log b").Replace(flowOfA), "theirs {}    ")
}

func TestADeprovisionNeedsNothing(t *testing.T) {
	t.Parallel()
	for name, absent := range map[string][]schema.GroupVersionResource{
		"neither kind": {flows, activations}, "no flows": {flows}, "no activations": {activations}, "nothing to remove": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, absent...)
			w.want(w.try(job{1, activated(order(services.Deprovision))}, 1), action.Done, "is deleted")
			w.wantWrites()
		})
	}
}

func TestADeprovisionThatIsRefusedIsRepeated(t *testing.T) {
	t.Parallel()
	away := errors.New("connection refused")
	replaced := apierrors.NewConflict(flows.GroupResource(), "event-flow-a", errors.New("UID in precondition"))
	for _, c := range []struct {
		verb     string
		resource schema.GroupVersionResource
		err      error
		kind     action.OutcomeKind
		text     string
	}{
		{"list", activations, away, action.Throttle, "list EventActivations in shop"},
		{"get", activations, away, action.Throttle, "release EventActivation shop/orders"},
		{"delete", activations, errNoRight, action.Throttle, "release EventActivation shop/orders"},
		{"list", flows, errNoRight, action.Throttle, "list EventFlows in shop"},
		{"delete", flows, away, action.Throttle, "delete EventFlow shop/event-flow-a"},
		{"delete", flows, replaced, action.RetryAfter, "is being deleted"},
	} {
		t.Run(c.verb+" "+c.resource.Resource, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.try(job{1, activated(order(services.Provision))}, 1)
			w.refuse = refusing(c.verb, c.resource, c.err)
			deprovision := job{2, activated(order(services.Deprovision))}
			if o := w.try(deprovision, 1); o.Kind != c.kind || !strings.Contains(o.Error, c.text) {
				t.Errorf("got %s: %s, want %s: %s", o.Kind, o.Error, c.kind, c.text)
			}
			w.refuse = nil
			w.want(w.finish(deprovision), action.Done, "is deleted")
		})
	}
}
