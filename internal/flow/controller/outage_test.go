package controller_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/flow/controller"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
)

// outage answers requests of the controller with an error while it lasts.
type outage struct {
	mu    sync.Mutex
	err   error // nil: requests are answered
	hits  func(kubetest.Request) bool
	count int // refused requests
}

func (o *outage) set(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = err
}

// refused returns the number of refused requests.
func (o *outage) refused() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.count
}

func (o *outage) answer(r kubetest.Request) error {
	o.mu.Lock()
	err := o.err
	if err != nil && o.hits(r) {
		o.count++
	} else {
		err = nil
	}
	o.mu.Unlock()
	if err != nil {
		<-time.After(time.Second) // a slow server
	}
	return err
}

// history returns all states of the flows' condition Ready since the watch began, each as "name status reason".
func (w *world) history() func() []string {
	ctx, stop := context.WithCancel(w.t.Context())
	var mu sync.Mutex
	var seen []string
	all, err := w.api.Resource(flows).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for event := range all.ResultChan() {
			o, ok := event.Object.(*unstructured.Unstructured)
			if !ok {
				return
			}
			conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
			if len(conditions) == 0 {
				continue
			}
			c, _ := conditions[0].(map[string]any)
			mu.Lock()
			if state := fmt.Sprint(o.GetName(), " ", c["status"], " ", c["reason"]); !slices.Contains(seen, state) {
				seen = append(seen, state)
			}
			mu.Unlock()
		}
	}()
	return func() []string {
		stop()
		<-ended
		mu.Lock()
		defer mu.Unlock()
		slices.Sort(seen)
		return seen
	}
}

// TestAnOutageIsNotAFailure of flows: the API server refuses reads, writes or all requests for minutes, in each way, and the watches
// have ended. The statuses stay. After it flows that were applied, changed or deleted in between have the state that they should have.
func TestAnOutageIsNotAFailure(t *testing.T) {
	t.Parallel()
	isRead := func(r kubetest.Request) bool { return slices.Contains([]string{"get", "list", "watch"}, r.Verb) }
	for name, fault := range map[string]error{
		"down":        errAway,
		"429":         apierrors.NewTooManyRequests("later", 1),
		"500":         apierrors.NewInternalError(errAway),
		"503":         apierrors.NewServiceUnavailable("etcd is away"),
		"504":         apierrors.NewServerTimeout(flows.GroupResource(), "write", 1),
		"a deadline":  context.DeadlineExceeded,
		"a dead hook": apierrors.NewInternalError(fmt.Errorf(`failed calling webhook "w": connection refused`)),
	} {
		for which, hits := range map[string]func(kubetest.Request) bool{
			"reads":      isRead,
			"writes":     func(r kubetest.Request) bool { return !isRead(r) },
			"everything": func(kubetest.Request) bool { return true },
			"but not of flows": func(r kubetest.Request) bool {
				return !slices.Contains([]string{flows.Resource, definitions.Resource, "events"}, r.Resource)
			},
		} {
			t.Run(name+" "+which, func(t *testing.T) {
				t.Parallel()
				bubbletest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					w.open()
					o := &outage{hits: hits}
					client := &record{Interface: w.api, before: o.answer, uids: map[string]string{}}
					through := func(c *controller.Config) { c.Cluster.Interface = client }
					i := w.start(through)
					w.apply(flows, orders)
					w.want("shop/orders", "Ready True Ready")
					history := w.history()

					o.set(fault)
					client.cut()
					w.apply(flows, returns)
					w.apply(flows, `{metadata: {name: fresh, namespace: shop}, spec: {source: {application: refunds},
						sink: {broker: {name: fresh, provisioning: Managed, deletionPolicy: WhenUnused}}}}`)
					w.patch(channels, "kyma-integration/commerce-1", `{metadata: {annotations: {team: shop}}}`) // wakes a flow
					w.patch(flows, "shop/orders", `{spec: {delivery: {retry: 3}}}`)
					<-time.After(10 * time.Minute)
					i.stop()
					w.start(through)
					<-time.After(10 * time.Minute)
					if got := w.conditions("shop/orders"); !slices.Contains(got, "Ready True Ready") || o.refused() == 0 {
						t.Errorf("during the outage: %q after %d refused requests", got, o.refused())
					}
					o.set(nil)
					<-time.After(6 * time.Minute) // back-off ends
					w.want("shop/orders", "Ready True Ready")
					w.want("shop/returns", "Ready True Ready")
					w.want("shop/fresh", "Ready True Ready")
					retries := 0
					for _, o := range w.list(subscriptions) {
						retry, _, _ := unstructured.NestedInt64(o.Object, "spec", "delivery", "retry")
						retries += int(retry)
					}
					if retries != 3 {
						t.Errorf("the deliveries have %d retries, want 3 of one", retries)
					}
					got := slices.DeleteFunc(history(), func(state string) bool {
						return strings.HasSuffix(state, "Provisioning") || strings.HasSuffix(state, "SubscriptionStale") // as without an outage
					})
					if diff := cmp.Diff([]string{"fresh True Ready", "orders True Ready", "returns True Ready"}, got); diff != "" {
						t.Errorf("states of the flows (-want +got):\n%s", diff)
					}

					o.set(fault)
					w.delete(flows, "shop/orders")
					w.delete(flows, "shop/returns")
					w.delete(flows, "shop/fresh")
					<-time.After(4 * time.Minute)
					o.set(nil)
					<-time.After(6 * time.Minute)
					rest()
					if left := len(w.list(flows)) + len(w.list(subscriptions)) + len(w.list(brokers)); left > 0 {
						t.Errorf("%d objects are left: %q", left, w.conditions("shop/orders"))
					}
				})
			})
		}
	}
}
