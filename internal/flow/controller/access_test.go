package controller_test

import (
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
)

// TestRefusedObjectsStallTheFlow, and are tried again every five minutes. An answer that the server is away does not refuse anything.
func TestRefusedObjectsStallTheFlow(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.open()
		var answer atomic.Pointer[apierrors.StatusError]
		w.api.Before(func(r kubetest.Request) error {
			if err := answer.Load(); err != nil && r.Verb == "create" && r.Resource == "subscriptions" {
				return err
			}
			return nil
		})
		answer.Store(apierrors.NewInternalError(errAway))
		w.start()
		w.apply(flows, orders)
		rest()
		if got := w.conditions("shop/orders"); len(got) > 0 {
			t.Errorf("the outage was recorded: %q", got)
		}
		answer.Store(apierrors.NewBadRequest("admission webhook denied the request: no Subscriptions here"))
		<-time.After(5 * time.Minute)
		w.want("shop/orders", "SubscriptionReady False SubscriptionRejected", "Stalled True SubscriptionRejected")
		answer.Store(nil)
		<-time.After(5 * time.Minute)
		w.want("shop/orders", "Ready True Ready")
	})
}

// TestGrantsOpenOtherNamespaces: without one the flow learns nothing of other namespaces; when it is withdrawn the delivery ends.
func TestGrantsOpenOtherNamespaces(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		w.apply(flows, `{metadata: {name: orders, namespace: shop}, spec: {sink: {broker: `+broker+`},
			source: {ref: {apiVersion: messaging.knative.dev/v1, kind: Channel, name: in, namespace: other}}}}`)
		w.want("shop/orders", "SourceReady False ReferenceNotAllowed", "SubscriptionReady Unknown WaitingForChannel")
		w.apply(channels, `{metadata: {name: in, namespace: other}, status: `+ready+`}`)
		w.want("shop/orders", "SourceReady False ReferenceNotAllowed")
		w.apply(grants, `{metadata: {name: g, namespace: other}, spec: {from: [{group: flow.waybill.dev, kind: EventFlow, namespace: shop}],
			to: [{group: messaging.knative.dev, kind: Channel}]}}`)
		w.want("shop/orders", "Ready True Ready")
		if all := w.list(subscriptions); len(all) != 1 || all[0].GetNamespace() != "other" {
			t.Errorf("Subscriptions: %v", all)
		}
		w.delete(grants, "other/g")
		w.want("shop/orders", "SourceReady False ReferenceNotAllowed")
		if all := w.list(subscriptions); len(all) != 0 {
			t.Errorf("the delivery continues: %v", all)
		}
	})
}

// TestReferencesFollowAnyKind: an informer begins with the first flow that names a kind, and ends after the last.
func TestReferencesFollowAnyKind(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		w.apply(flows, `{metadata: {name: direct, namespace: shop}, spec: {sink: {broker: `+broker+`},
			source: {ref: {apiVersion: sources.example/v1, kind: Clock, name: tick}}}}`)
		w.want("shop/direct", "SourceReady False SourceKindNotInstalled")
		w.api.Install(kubetest.Kind{GroupVersionResource: clocks, Kind: "Clock", Status: true})
		w.want("shop/direct", "SourceReady False SourceNotFound")
		w.apply(clocks, `{metadata: {name: tick, namespace: shop}, status: `+ready+`,
			spec: {sink: {ref: {apiVersion: eventing.knative.dev/v1, kind: Broker, name: default}}}}`)
		w.want("shop/direct", "SubscriptionReady True DirectSource", "Ready True Ready")
		w.patch(clocks, "shop/tick", `{spec: {sink: {ref: {name: other}}}}`)
		w.want("shop/direct", "SubscriptionReady False SinkMismatch")
		w.delete(flows, "shop/direct")
		rest()
		lists := 0
		w.api.Before(func(r kubetest.Request) error {
			if r.Resource == clocks.Resource {
				lists++
			}
			return nil
		})
		w.api.Cut()
		rest()
		if lists > 0 {
			t.Errorf("the kind is still followed: %d requests", lists)
		}
	})
}

// TestAFlowIntoItsOwnChannelIsRefused: its events would come back without end. No Subscription is made.
func TestAFlowIntoItsOwnChannelIsRefused(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		w.apply(channels, `{metadata: {name: in, namespace: shop}, status: {conditions: [{type: Ready, status: "True"}], address: {url: "http://in.example"}}}`)
		w.apply(flows, `{metadata: {name: round, namespace: shop}, spec: {source: {ref: {apiVersion: messaging.knative.dev/v1, kind: Channel, name: in}},
			sink: {ref: {apiVersion: messaging.knative.dev/v1, kind: Channel, name: in, namespace: shop}}}}`)
		w.want("shop/round", "SubscriptionReady False SinkIsSource", "Stalled True SinkIsSource")
		if all := w.list(subscriptions); len(all) > 0 {
			t.Errorf("Subscriptions: %v", all)
		}
	})
}

// TestOfFlowsOfOneSecondTheFirstByNameDecides their delivery, whatever their UIDs.
func TestOfFlowsOfOneSecondTheFirstByNameDecides(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.open()
		w.start()
		for _, name := range []string{"d", "a", "c", "b"} {
			w.apply(flows, `{metadata: {name: `+name+`, namespace: shop}, spec: {source: {application: commerce}, delivery: {retry: `+
				strconv.Itoa(int(name[0]-'a'))+`}, sink: {broker: `+broker+`}}}`)
		}
		w.want("shop/a", "Ready True Ready")
		for _, name := range []string{"b", "c", "d"} {
			w.want("shop/"+name, "SubscriptionReady False DeliveryConflict")
		}
	})
}
