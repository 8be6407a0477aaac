//go:build services

package flow_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/flow/controller"
	"github.com/waybill-dev/waybill/test/testbed"
)

// route is a channel, and the way from the Broker to the sink.
const route = `
apiVersion: messaging.knative.dev/v1
kind: Channel
metadata: {name: in, namespace: %[1]s}
spec: {channelTemplate: {apiVersion: messaging.knative.dev/v1, kind: InMemoryChannel}}
---
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {name: out, namespace: %[1]s, labels: {eventing.knative.dev/broker: default}}
spec:
  broker: default
  subscriber: {ref: {apiVersion: v1, kind: Service, name: sink}}
`

// flowTo is a flow from the channel to the Broker. Without Knative's webhook it names the class and the configuration of the Broker.
const flowTo = `
apiVersion: flow.waybill.dev/v1alpha1
kind: EventFlow
metadata: {name: %[2]s, namespace: %[1]s}
spec:
  source: {ref: {apiVersion: messaging.knative.dev/v1, kind: Channel, name: in}}
  sink:
    broker:
      class: MTChannelBasedBroker
      config: {apiVersion: v1, kind: ConfigMap, name: config-br-default-channel, namespace: knative-eventing}
  delivery: {retry: 10, backoffPolicy: linear, backoffDelay: PT0.2S}
`

// TestEventsReachTheSinkOfAFlow with Knative's own controllers and the shipped rights: two flows share the Subscription and the Broker, so
// an event arrives once; a Broker that is deleted comes back though the controller that led has ended; the last flow removes both.
func TestEventsReachTheSinkOfAFlow(t *testing.T) {
	t.Parallel()
	cluster := testbed.Kubernetes(t)
	knative := testbed.Knative(t, cluster)
	cluster.InstallReferenceGrants(t)
	cluster.Apply(t, string(v1alpha1.Definition))
	kubeconfig := account(t, cluster)
	stop := startController(t, controller.Config{Cluster: open(t, kubeconfig), Elect: true, Identity: "a"})
	leases := cluster.Dynamic.Resource(schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"})
	awaitLeader := func(name string) {
		cluster.Await(t, leases.Namespace("waybill"), "waybill-flow", func(o *unstructured.Unstructured) bool {
			holder, _, _ := unstructured.NestedString(o.Object, "spec", "holderIdentity")
			return holder == name
		})
	}
	awaitLeader("a")
	startController(t, controller.Config{Cluster: open(t, kubeconfig), Elect: true, Identity: "b"})

	namespace := cluster.Namespace(t)
	sink := knative.Sink(t, namespace, "sink")
	cluster.Apply(t, fmt.Sprintf(route, namespace))
	flows := cluster.Dynamic.Resource(v1alpha1.Resource()).Namespace(namespace)
	objects := func(group, resource string) dynamic.ResourceInterface {
		return cluster.Dynamic.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}).Namespace(namespace)
	}
	brokers, channels := objects("eventing.knative.dev", "brokers"), objects("messaging.knative.dev", "channels")
	isReady := func(o *unstructured.Unstructured) bool { return testbed.Ready(o) == "True" }
	for _, name := range []string{"orders", "returns"} {
		cluster.Apply(t, fmt.Sprintf(flowTo, namespace, name))
		cluster.Await(t, flows, name, isReady)
	}
	cluster.Await(t, objects("eventing.knative.dev", "triggers"), "out", isReady)
	channel, _, _ := unstructured.NestedString(cluster.Await(t, channels, "in", isReady).Object, "status", "address", "url")
	knative.Send(t, channel, testbed.Event{ID: "first", Source: "/shop", Type: "order.created.v1", Data: `{"id":42}`})
	sink.Await(t, "first")

	stop()
	awaitLeader("b")
	former, err := brokers.Get(t.Context(), "default", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := brokers.Delete(t.Context(), "default", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	cluster.Await(t, brokers, "default", func(o *unstructured.Unstructured) bool { return o.GetUID() != former.GetUID() && isReady(o) })
	cluster.Await(t, flows, "orders", func(o *unstructured.Unstructured) bool {
		uid, _, _ := unstructured.NestedString(o.Object, "status", "broker", "uid")
		return uid != string(former.GetUID()) && isReady(o)
	})
	cluster.Await(t, objects("eventing.knative.dev", "triggers"), "out", isReady)
	knative.Send(t, channel, testbed.Event{ID: "second", Source: "/shop", Type: "order.created.v1", Data: `{"id":43}`})
	sink.Await(t, "second")
	if first, second := sink.Count("first"), sink.Count("second"); first != 1 || second != 1 {
		t.Errorf("the events arrived %d and %d times, want once", first, second)
	}

	for _, name := range []string{"orders", "returns"} {
		if _, err := brokers.Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
			t.Errorf("before flow %s is deleted: %v", name, err)
		}
		if err := flows.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		cluster.AwaitGone(t, flows, name)
	}
	cluster.AwaitGone(t, brokers, "default")
	left, err := objects("messaging.knative.dev", "subscriptions").List(t.Context(), metav1.ListOptions{LabelSelector: v1alpha1.LinkLabel})
	if err != nil || len(left.Items) > 0 {
		t.Errorf("%d Subscriptions are left (%v)", len(left.Items), err)
	}
}
