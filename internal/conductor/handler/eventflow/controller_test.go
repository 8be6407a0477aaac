package eventflow_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/flow/controller"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
	"github.com/waybill-dev/waybill/internal/services"
)

var (
	channels      = schema.GroupVersionResource{Group: "messaging.knative.dev", Version: "v1", Resource: "channels"}
	subscriptions = schema.GroupVersionResource{Group: "messaging.knative.dev", Version: "v1", Resource: "subscriptions"}
)

// control runs the controller of flows until the test ends, in a cluster with the kinds of Knative.
func (w *world) control() {
	w.t.Helper()
	for _, kind := range kinds() {
		w.api.Install(kind)
	}
	w.api.Install(kubetest.Kind{GroupVersionResource: subscriptions, Kind: "Subscription", Status: true})
	w.api.Install(kubetest.Kind{GroupVersionResource: channels, Kind: "Channel", Status: true})
	definition := "channels.messaging.knative.dev"
	_, err := w.api.Resource(kubetest.Definitions).Patch(w.t.Context(), definition, "application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"messaging.knative.dev/subscribable":"true"}}}`), metav1.PatchOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	c := controller.New(controller.Config{Cluster: w.api.Cluster("waybill"), Identity: "test", Log: slog.New(slog.DiscardHandler)})
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
	})
}

// rest waits until nothing moves.
func rest() {
	<-time.After(time.Second)
	synctest.Wait()
}

// TestAServiceInstanceWithTheController goes through its life while the controller of flows works.
func TestAServiceInstanceWithTheController(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.control()
		spec := `{"source":{"ref":{"apiVersion":"messaging.knative.dev/v1","kind":"Channel","name":"orders"}},"sink":{"uri":"http://shop.example/"}}`
		provision := job{1, waiting(activated(order(services.Provision)))}
		provision.order.Spec = json.RawMessage(spec)
		w.wantRest(provision, "is not Ready: the role flow has not handled it yet")
		w.wantRest(provision, "is not Ready: Channel shop/orders not found")
		w.add(channels, `{metadata: {name: orders}, status: {conditions: [{type: Ready, status: "True"}]}}`)
		rest()
		w.wantRest(provision, "Subscription shop/")
		name := w.objectsOf(subscriptions)[0].GetName()
		w.patch(subscriptions, name, `{status: {observedGeneration: 1, conditions: [{type: Ready, status: "True"}]}}`, "status")
		rest()
		o := w.try(provision, 5)
		if want := `{"description":"the flow shop/event-flow-a is Ready","sinkUri":"http://shop.example/"}`; string(o.Output) != want {
			t.Errorf("got %s %s%s, want %s", o.Kind, o.Error, o.Output, want)
		}
		if got := w.state(); !slices.Contains(got, ordersOfA) {
			t.Errorf("the controller has changed the EventActivation: %q", got)
		}
		w.patch(subscriptions, name, `{metadata: {finalizers: [knative]}}`)
		deprovision := job{2, order(services.Deprovision)}
		w.wantRest(deprovision, "EventFlow shop/event-flow-a is being deleted")
		w.wantRest(deprovision, "is being deleted: waits for the end of Subscription shop/"+name)
		w.patch(subscriptions, name, `{metadata: {finalizers: null}}`)
		rest()
		w.want(w.try(deprovision, 3), action.Done, "is deleted")
		if left := w.objectsOf(subscriptions); len(left) != 0 {
			t.Errorf("%d Subscriptions are left", len(left))
		}
	})
}

// wantRest makes an attempt that has to be repeated, and waits until nothing moves.
func (w *world) wantRest(j job, text string) {
	w.t.Helper()
	if o := w.try(j, 1); o.Kind != action.RetryAfter || !strings.Contains(o.Error, text) {
		w.t.Errorf("got %s: %s%s, want %s", o.Kind, o.Error, o.Output, text)
	}
	rest()
}
