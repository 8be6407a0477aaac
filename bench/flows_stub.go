package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
)

// The resources between source and sink.
var (
	flowBrokers       = schema.GroupVersionResource{Group: "eventing.knative.dev", Version: "v1", Resource: "brokers"}
	flowSubscriptions = schema.GroupVersionResource{Group: "messaging.knative.dev", Version: "v1", Resource: "subscriptions"}
	flowChannelKind   = schema.GroupVersionResource{Group: "messaging.knative.dev", Version: "v1", Resource: "channels"}
)

// inform starts an informer and waits until it has all objects. changed receives nil for an object that is gone.
func inform(ctx context.Context, client dynamic.Interface, kind schema.GroupVersionResource,
	changed func(key string, object *unstructured.Unstructured)) error {
	informer := dynamicinformer.NewDynamicSharedInformerFactory(client, 0).ForResource(kind).Informer()
	report := func(given any, gone bool) {
		key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(given)
		if err != nil {
			return
		}
		object, _ := given.(*unstructured.Unstructured)
		if gone {
			object = nil
		}
		changed(key, object)
	}
	handled, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { report(o, false) },
		UpdateFunc: func(_, o any) { report(o, false) },
		DeleteFunc: func(o any) { report(o, true) },
	})
	if err != nil {
		return err
	}
	go informer.Run(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), handled.HasSynced) {
		return fmt.Errorf("follow %s: %w", kind.Resource, context.Cause(ctx))
	}
	return nil
}

// runFlowStub makes Brokers, Subscriptions and Channels ready at once, as their own controllers would, until ctx ends.
func runFlowStub(ctx context.Context, client dynamic.Interface) error {
	slots := make(chan struct{}, 16)
	for _, kind := range []schema.GroupVersionResource{flowBrokers, flowSubscriptions, flowChannelKind} {
		err := inform(ctx, client, kind, func(_ string, o *unstructured.Unstructured) {
			if o == nil || o.GetDeletionTimestamp() != nil || isCurrent(o) {
				return
			}
			slots <- struct{}{}
			go func() {
				defer func() { <-slots }()
				if err := setReady(ctx, client, kind, o, "True"); err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
					fmt.Fprintln(os.Stderr, "stub:", err)
				}
			}()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// isCurrent reports whether an object has a status for its generation.
func isCurrent(o *unstructured.Unstructured) bool {
	seen, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration") // absent: 0
	return seen >= o.GetGeneration()
}

// setReady writes the condition Ready of an object, and its address if its kind has one.
func setReady(ctx context.Context, client dynamic.Interface, kind schema.GroupVersionResource, o *unstructured.Unstructured, ready string) error {
	address := ""
	if kind != flowSubscriptions {
		address = fmt.Sprintf(`, "address": {"url": "http://%s.example/%s/%s"}`, kind.Resource, o.GetNamespace(), o.GetName())
	}
	patch := fmt.Sprintf(`{"status": {"observedGeneration": %d, "conditions": [{"type": "Ready", "status": "%s", "lastTransitionTime": "%s"}]%s}}`,
		o.GetGeneration(), ready, time.Now().UTC().Format(time.RFC3339), address)
	_, err := client.Resource(kind).Namespace(o.GetNamespace()).
		Patch(ctx, o.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	return err
}

// readiness returns the status of an object's condition Ready.
func readiness(o *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions") // absent: none
	for _, one := range conditions {
		if c, ok := one.(map[string]any); ok && c["type"] == "Ready" {
			status, _ := c["status"].(string)
			return status
		}
	}
	return ""
}

// flowWatch follows the flows of a cluster.
type flowWatch struct {
	mu      sync.Mutex
	flows   map[string]bool // by namespace and name: whether it is ready
	ready   int
	changed chan struct{} // closed at the next change
}

func watchFlows(ctx context.Context, client dynamic.Interface) (*flowWatch, error) {
	w := &flowWatch{flows: map[string]bool{}, changed: make(chan struct{})}
	return w, inform(ctx, client, v1alpha1.Resource(), w.note)
}

func (w *flowWatch) note(key string, o *unstructured.Unstructured) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.flows[key] {
		w.ready--
	}
	delete(w.flows, key)
	if o != nil {
		w.flows[key] = readiness(o) == "True" && o.GetDeletionTimestamp() == nil
		if w.flows[key] {
			w.ready++
		}
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

// await waits until done holds, and returns the time.
func (w *flowWatch) await(ctx context.Context, done func(*flowWatch) bool) (time.Time, error) {
	for {
		w.mu.Lock()
		reached, changed := done(w), w.changed
		all, ready := len(w.flows), w.ready
		w.mu.Unlock()
		if reached {
			return time.Now(), nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("there are %d flows, of which %d are ready: %w", all, ready, context.Cause(ctx))
		}
	}
}
