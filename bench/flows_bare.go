package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
)

// flowRate is the rate of requests of the controller, which the bare client has too.
const flowRate = 200

// accountClient returns a client of the controller's account, with its rate of requests.
func (w *flowWorld) accountClient() (dynamic.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", w.flowCluster.account)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = flowRate, flowRate
	return dynamic.NewForConfig(config)
}

// keepStatus keeps the status of a ready flow, for the writes of the bare client.
func (w *flowWorld) keepStatus(ctx context.Context) error {
	namespace, name := w.placeOf(0)
	o, err := w.client.Resource(v1alpha1.Resource()).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	w.status, _, err = unstructured.NestedMap(o.Object, "status")
	return err
}

// bareRound makes the flows again, without a controller, and returns the seconds that as many writes of each kind take a client that
// knows them all in advance.
func (w *flowWorld) bareRound(ctx context.Context, made, deleted map[string]int) (making, deleting float64, err error) {
	if err := w.makeFlows(ctx); err != nil {
		return 0, 0, err
	}
	client, err := w.accountClient()
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if err := w.bareWrites(ctx, client, made); err != nil {
		return 0, 0, err
	}
	making = time.Since(began).Seconds()
	if _, err := w.settledWrites(ctx); err != nil { // the stub's follow
		return 0, 0, err
	}
	began = time.Now()
	err = w.bareWrites(ctx, client, deleted)
	return making, time.Since(began).Seconds(), err
}

// bareOrder is the order in which a bare client makes the writes of each kind: objects are made before they are changed or deleted.
var bareOrder = []string{"POST brokers", "POST subscriptions", "PATCH brokers", "PATCH subscriptions", "PATCH eventflows",
	"PATCH eventflows/status", "POST events", "DELETE subscriptions", "DELETE brokers"}

// bareWrites makes so many writes of each kind.
func (w *flowWorld) bareWrites(ctx context.Context, client dynamic.Interface, writes map[string]int) error {
	done := 0
	for _, kind := range bareOrder {
		err := atOnce(writes[kind], func(i int) error {
			err := w.bareWrite(ctx, client, kind, i)
			if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
				return nil // the controller's was refused too
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		done += writes[kind]
	}
	if all := total(writes); done != all {
		return fmt.Errorf("%d of %d writes are of kinds that the bare client does not know", all-done, all)
	}
	return nil
}

// bareWrite makes one write.
func (w *flowWorld) bareWrite(ctx context.Context, client dynamic.Interface, kind string, i int) (err error) {
	namespace, name := w.placeOf(i % w.options.Flows)
	team := flowNamespace(i % w.options.Namespaces)
	in := func(of schema.GroupVersionResource, namespace string) dynamic.ResourceInterface {
		return client.Resource(of).Namespace(namespace)
	}
	subscription := fmt.Sprintf("bare-%d", i)
	patch := func(of dynamic.ResourceInterface, name string, change map[string]any, parts ...string) error {
		text, err := json.Marshal(change)
		if err == nil {
			_, err = of.Patch(ctx, name, types.MergePatchType, text, metav1.PatchOptions{}, parts...)
		}
		return err
	}
	note := map[string]any{"metadata": map[string]any{"annotations": map[string]any{fmt.Sprintf("bare/n%d", i%10): time.Now().String()}}}
	switch kind {
	case "POST brokers":
		_, err = in(flowBrokers, team).Create(ctx, flowObject("eventing.knative.dev/v1", "Broker", "default", map[string]any{}), metav1.CreateOptions{})
	case "POST subscriptions":
		_, err = in(flowSubscriptions, flowIntegration).Create(ctx, bareSubscription(subscription, i), metav1.CreateOptions{})
	case "POST events":
		_, err = in(schema.GroupVersionResource{Version: "v1", Resource: "events"}, namespace).Create(ctx, bareEvent(namespace, name), metav1.CreateOptions{})
	case "PATCH brokers":
		err = patch(in(flowBrokers, team), "default", note)
	case "PATCH subscriptions":
		err = patch(in(flowSubscriptions, flowIntegration), subscription, note)
	case "PATCH eventflows":
		err = patch(in(v1alpha1.Resource(), namespace), name, note)
	case "PATCH eventflows/status":
		status := (&unstructured.Unstructured{Object: w.status}).DeepCopy().Object
		status["sinkUri"] = fmt.Sprintf("http://bare-%d.example", i)
		err = patch(in(v1alpha1.Resource(), namespace), name, map[string]any{"status": status}, "status")
	case "DELETE subscriptions":
		err = in(flowSubscriptions, flowIntegration).Delete(ctx, subscription, metav1.DeleteOptions{})
	case "DELETE brokers":
		err = in(flowBrokers, team).Delete(ctx, "default", metav1.DeleteOptions{})
	}
	return err
}

func bareSubscription(name string, i int) *unstructured.Unstructured {
	return flowObject("messaging.knative.dev/v1", "Subscription", name, map[string]any{
		"channel":    map[string]any{"apiVersion": "messaging.knative.dev/v1", "kind": "Channel", "name": flowApplication(i)},
		"subscriber": map[string]any{"uri": "http://broker.example/bare/default"},
	}, "app.kubernetes.io/managed-by", "bench")
}

func bareEvent(namespace, name string) *unstructured.Unstructured {
	now := time.Now().UTC().Format(time.RFC3339)
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Event", "metadata": map[string]any{"generateName": "bare.", "namespace": namespace},
		"involvedObject": map[string]any{"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.Kind, "namespace": namespace, "name": name},
		"reason":         "Ready", "message": "the flow is ready", "type": "Normal", "count": int64(1),
		"firstTimestamp": now, "lastTimestamp": now, "source": map[string]any{"component": "bench"},
	}}
}
