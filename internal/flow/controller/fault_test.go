package controller_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
	"github.com/waybill-dev/waybill/internal/obs"
)

// fail has the API server answer the requests that match with an error, until the switch is turned off.
func (w *world) fail(matches func(kubetest.Request) bool, err error) *atomic.Bool {
	var on atomic.Bool
	on.Store(true)
	w.api.Before(func(r kubetest.Request) error {
		if on.Load() && matches(r) {
			return err
		}
		return nil
	})
	return &on
}

// reads reports whether a request lists or watches a kind.
func reads(of schema.GroupVersionResource) func(kubetest.Request) bool {
	return func(r kubetest.Request) bool {
		return r.Resource == of.Resource && (r.Verb == "list" || r.Verb == "watch")
	}
}

// writes reports whether a request changes objects of a kind.
func writes(of schema.GroupVersionResource) func(kubetest.Request) bool {
	return func(r kubetest.Request) bool {
		return r.Resource == of.Resource && (r.Verb == "create" || r.Verb == "patch")
	}
}

func forbidden(of schema.GroupVersionResource) error {
	return apierrors.NewForbidden(of.GroupResource(), "", errAway)
}

// TestAReplacedSubscriptionIsNoRejection: it is deleted and made again between the read and the correction.
func TestAReplacedSubscriptionIsNoRejection(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := running(t)
		link := w.list(subscriptions)[0]
		name := link.GetNamespace() + "/" + link.GetName()
		var stalled, replaced atomic.Bool
		w.api.Before(func(r kubetest.Request) error {
			corrects := r.Verb == "patch" && r.Resource == subscriptions.Resource && r.Subresource == ""
			if corrects && replaced.CompareAndSwap(false, true) {
				w.delete(subscriptions, name)
				w.patch(subscriptions, name, `{metadata: {finalizers: null}}`)
				again := link.DeepCopy()
				again.SetUID("")
				again.SetResourceVersion("")
				if _, err := w.api.Resource(subscriptions).Namespace(link.GetNamespace()).Create(t.Context(), again, metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
			}
			return nil
		})
		w.api.After(func(r kubetest.Request) error {
			if r.Resource == flows.Resource && r.Subresource == "status" && slices.Contains(w.conditions("shop/orders"), "SubscriptionReady False SubscriptionRejected") {
				stalled.Store(true)
			}
			return nil
		})
		w.patch(flows, "shop/orders", `{spec: {delivery: {retry: 3}}}`)
		w.want("shop/orders", "Ready True Ready")
		if !replaced.Load() || stalled.Load() {
			t.Errorf("replaced: %t, reported as a rejection: %t", replaced.Load(), stalled.Load())
		}
	})
}

// TestAKindOfFlowsThatIsNotServedLosesNothing: a 404 about the kind does not deny a flow.
func TestAKindOfFlowsThatIsNotServedLosesNothing(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := running(t)
		away := w.fail(func(r kubetest.Request) bool { return r.Resource == flows.Resource && r.Verb != "create" },
			&apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 404, Reason: metav1.StatusReasonNotFound,
				Message: "the server could not find the requested resource", Details: &metav1.StatusDetails{
					Causes: []metav1.StatusCause{{Type: metav1.CauseTypeUnexpectedServerResponse, Message: "404 page not found"}}}}})
		name := flows.GroupResource().String()
		serve := func(served string) {
			_, err := w.api.Resource(definitions).Patch(t.Context(), name, types.MergePatchType,
				[]byte(`{"spec":{"versions":[{"name":"`+flows.Version+`","served":`+served+`}]}}`), metav1.PatchOptions{})
			if err != nil {
				t.Fatal(err)
			}
			rest()
		}
		serve("false")
		made := w.get(brokers, "shop/default").GetUID()
		w.status(w.get(brokers, "shop/default"), unready)
		<-time.After(time.Minute)
		rest()
		away.Store(false)
		serve("true")
		w.status(w.get(brokers, "shop/default"), ready)
		<-time.After(time.Minute)
		rest()
		if now := w.get(brokers, "shop/default"); now == nil || now.GetUID() != made || len(w.list(subscriptions)) != 1 {
			t.Errorf("the Broker: %v, Subscriptions: %d", now, len(w.list(subscriptions)))
		}
	})
}

// TestAKindThatCannotBeListedStopsOnlyItsFlows, and the log names it.
func TestAKindThatCannotBeListedStopsOnlyItsFlows(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		lines := &journal{}
		w.log = lines
		w.open()
		w.fail(reads(peers), apierrors.NewInternalError(errAway))
		w.start()
		w.apply(flows, orders)
		w.want("shop/orders", "Ready True Ready")
		if lines.count("objects cannot be followed", "PeerAuthentication") == 0 {
			t.Error("the log does not name the kind")
		}
	})
}

// TestADeletionWaitsForTheRightToSeeItsClaims, and names the right.
func TestADeletionWaitsForTheRightToSeeItsClaims(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.open()
		first := w.start()
		w.apply(flows, orders)
		w.want("shop/orders", "Ready True Ready")
		link := w.list(subscriptions)[0]
		name := link.GetNamespace() + "/" + link.GetName()
		first.stop()
		refused := w.fail(reads(subscriptions), forbidden(subscriptions))
		w.start()
		w.want("shop/orders", "SubscriptionReady False ReferenceNotAllowed")
		w.delete(flows, "shop/orders")
		<-time.After(6 * time.Minute)
		w.want("shop/orders", "Ready False DeletionBlocked")
		if w.get(subscriptions, name) == nil || w.get(brokers, "shop/default") == nil {
			t.Error("the Broker left before the Subscription")
		}
		refused.Store(false)
		<-time.After(2 * time.Minute)
		rest()
		if w.get(flows, "shop/orders") != nil || w.get(subscriptions, name) != nil {
			t.Errorf("the flow stays: %q", w.conditions("shop/orders"))
		}
	})
}

const meshed = `{metadata: {name: orders, namespace: shop}, spec: {source: {application: commerce}, meshPolicy: PermissiveMetrics,
	sink: {broker: ` + broker + `}}}`

// TestAMeshPolicyThatMayNotBeReadIsReported, and is not taken for a cluster without a mesh.
func TestAMeshPolicyThatMayNotBeReadIsReported(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.open()
		w.fail(reads(peers), forbidden(peers))
		w.start()
		w.apply(flows, meshed)
		w.want("shop/orders", "PolicyReady False ReferenceNotAllowed", "Ready False ReferenceNotAllowed", "SubscriptionReady True SubscriptionReady")
	})
}

// TestAMeshPolicyHoldsBackNoOtherPart: its webhook is away while the Subscription fails and is repaired. The policy stays as it was.
func TestAMeshPolicyHoldsBackNoOtherPart(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.open()
		w.start()
		away := w.fail(writes(peers), apierrors.NewInternalError(errAway))
		w.apply(flows, meshed)
		w.want("shop/orders", "SubscriptionReady True SubscriptionReady", "PolicyReady Unknown Pending", "Ready Unknown Pending")
		away.Store(false)
		<-time.After(5 * time.Minute)
		w.want("shop/orders", "Ready True Ready")
		w.api.Before(func(r kubetest.Request) error {
			if writes(peers)(r) && !away.CompareAndSwap(false, true) { // the first patch is the user's
				return apierrors.NewInternalError(errAway)
			}
			return nil
		})
		w.patch(peers, "shop/default-broker", `{spec: {portLevelMtls: {"9090": {mode: STRICT}}}}`)
		w.knative.set(subscriptions, true, false)
		w.want("shop/orders", "SubscriptionReady False SubscriptionNotReady", "PolicyReady True PolicyApplied")
		if w.get(peers, "shop/default-broker") == nil {
			t.Error("the policy was released")
		}
	})
}

// TestWithdrawnAccessEndsTheDelivery also while the sink cannot be written.
func TestWithdrawnAccessEndsTheDelivery(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := running(t)
		away := w.fail(func(r kubetest.Request) bool { return r.Resource == brokers.Resource && r.Verb == "create" },
			apierrors.NewInternalError(errAway))
		w.delete(brokers, "shop/default")
		w.delete(mappings, "shop/commerce")
		<-time.After(time.Minute)
		rest()
		if left := w.list(subscriptions); len(left) > 0 {
			t.Errorf("the delivery continues: %v", left)
		}
		away.Store(false)
		<-time.After(5 * time.Minute)
		w.want("shop/orders", "SourceReady False ApplicationNotMapped", "SinkReady True SinkReady")
	})
}

// TestAStartSweepsNothing although the flows are listed last: their claims are not stale before that.
func TestAStartSweepsNothing(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		registry := prometheus.NewRegistry()
		w.open()
		first := w.start()
		w.apply(flows, orders)
		w.want("shop/orders", "Ready True Ready")
		first.stop()
		var looked atomic.Int64
		late := reads(flows)
		w.api.Before(func(r kubetest.Request) error {
			switch {
			case late(r):
				<-time.After(time.Second)
			case r.Resource == flows.Resource && r.Verb == "get":
				looked.Add(1)
			}
			return nil
		})
		w.metrics = obs.NewFlow(registry)
		w.start()
		<-time.After(10 * time.Second)
		rest()
		if n := looked.Load(); n > 0 {
			t.Errorf("%d flows were read to judge their claims", n)
		}
		for labels, n := range readings(t, registry, "waybill_flow_stale_claims_total") {
			if n != 0 {
				t.Errorf("stale claims %s: %d", labels, n)
			}
		}
	})
}

// TestAFlowThatCannotBeReadCanBeDeleted: its spec is of a version that this one does not know.
func TestAFlowThatCannotBeReadCanBeDeleted(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := running(t)
		w.patch(flows, "shop/orders", `{spec: {source: [of, another, form]}}`)
		rest()
		w.delete(flows, "shop/orders")
		<-time.After(time.Minute)
		rest()
		if w.get(flows, "shop/orders") != nil || len(w.list(subscriptions)) > 0 || w.get(brokers, "shop/default") != nil {
			t.Errorf("the flow stays: %v", w.get(flows, "shop/orders"))
		}
	})
}

// TestAnObjectThatIsWrittenAgainAndAgainBacksOff to the longest delay.
func TestAnObjectThatIsWrittenAgainAndAgainBacksOff(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.open()
		var tries atomic.Int64
		w.api.Before(func(r kubetest.Request) error {
			if r.Verb == "create" && r.Resource == brokers.Resource {
				tries.Add(1)
				return apierrors.NewInternalError(errAway)
			}
			return nil
		})
		w.start()
		w.apply(flows, orders)
		<-time.After(time.Hour)
		before := tries.Load()
		<-time.After(time.Hour)
		if n := tries.Load() - before; n < 10 || n > 20 {
			t.Errorf("%d tries in the second hour, want one each five minutes", n)
		}
		if slices.ContainsFunc(w.conditions("shop/orders"), func(one string) bool { return strings.Contains(one, "False") }) {
			t.Errorf("the outage was recorded: %q", w.conditions("shop/orders"))
		}
	})
}
