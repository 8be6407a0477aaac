package controller_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// knative makes Brokers and Subscriptions ready, and holds those that are deleted until it has released them.
type knative struct {
	*world

	mu     sync.Mutex
	stop   func()
	broken map[string]bool // kinds whose objects are not ready
	stuck  map[string]bool // kinds whose deletion does not end
	delays map[schema.GroupVersionResource]time.Duration
}

const knativeFinalizer = "knative.dev/finalizer"

func startKnative(t *testing.T, w *world) *knative {
	t.Helper()
	k := &knative{world: w, broken: map[string]bool{}, stuck: map[string]bool{}}
	ctx, cancel := context.WithCancel(t.Context())
	var loops sync.WaitGroup
	for _, resource := range []schema.GroupVersionResource{brokers, subscriptions} {
		w, err := w.api.Resource(resource).Watch(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		loops.Go(func() { k.follow(ctx, resource, w) })
	}
	k.stop = func() {
		cancel()
		loops.Wait()
	}
	t.Cleanup(k.stop)
	return k
}

func (k *knative) follow(ctx context.Context, resource schema.GroupVersionResource, w watch.Interface) {
	defer w.Stop()
	for {
		select {
		case event := <-w.ResultChan():
			o, ok := event.Object.(*unstructured.Unstructured)
			if !ok {
				return
			}
			if event.Type != watch.Deleted {
				k.wait(resource)
				k.settle(ctx, resource, o)
			}
		case <-ctx.Done():
			return
		}
	}
}

// settle makes an object ready, or ends its deletion.
func (k *knative) settle(ctx context.Context, resource schema.GroupVersionResource, o *unstructured.Unstructured) {
	k.mu.Lock()
	broken, stuck := k.broken[o.GetKind()], k.stuck[o.GetKind()]
	k.mu.Unlock()
	objects := k.api.Resource(resource).Namespace(o.GetNamespace())
	patch := func(change map[string]any, parts ...string) {
		text, _ := json.Marshal(change)
		_, _ = objects.Patch(ctx, o.GetName(), types.MergePatchType, text, metav1.PatchOptions{}, parts...) // it may be gone
	}
	if o.GetDeletionTimestamp() != nil {
		if !stuck {
			patch(map[string]any{"metadata": map[string]any{"finalizers": nil, "uid": string(o.GetUID())}})
		}
		return
	}
	if !slices.Contains(o.GetFinalizers(), knativeFinalizer) {
		patch(map[string]any{"metadata": map[string]any{"finalizers": []any{knativeFinalizer}, "uid": string(o.GetUID())}})
		return
	}
	status := map[string]any{"observedGeneration": o.GetGeneration(),
		"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}
	if broken {
		status["conditions"] = []any{map[string]any{"type": "Ready", "status": "False", "reason": "Broken", "message": "it is broken"}}
	}
	if resource == brokers {
		status["address"] = map[string]any{"url": fmt.Sprintf("http://broker-ingress.knative-eventing.svc.cluster.local/%s/%s", o.GetNamespace(), o.GetName())}
	}
	patch(map[string]any{"status": status}, "status")
}

// slow has Knative act late, one kind after the other, once the controllers have seen all objects: runs do not differ then.
func (k *knative) slow() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.delays = map[schema.GroupVersionResource]time.Duration{brokers: 10 * time.Millisecond, subscriptions: 15 * time.Millisecond}
}

func (k *knative) wait(resource schema.GroupVersionResource) {
	k.mu.Lock()
	delay := k.delays[resource]
	k.mu.Unlock()
	if delay > 0 {
		<-time.After(delay)
	}
}

// set has objects of a kind be broken or stuck from now on, and looks at each.
func (k *knative) set(resource schema.GroupVersionResource, broken, stuck bool) {
	k.t.Helper()
	k.mu.Lock()
	k.broken[served[resource].kind], k.stuck[served[resource].kind] = broken, stuck
	k.mu.Unlock()
	for _, o := range k.list(resource) {
		k.settle(k.t.Context(), resource, &o)
	}
}
