//go:build services

package flow_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/internal/flow/controller"
	"github.com/waybill-dev/waybill/test/testbed"
)

// oidcOn has Knative authenticate senders, and admit those of the receiver's namespace alone.
const oidcOn = `
apiVersion: v1
kind: ConfigMap
metadata: {name: config-features, namespace: knative-eventing}
data: {authentication-oidc: enabled, default-authorization-mode: allow-same-namespace}
`

// flowBetween is a flow from the Channel of another namespace. Without Knative's webhook it names the class and the configuration of the Broker.
const flowBetween = `
apiVersion: flow.waybill.dev/v1alpha1
kind: EventFlow
metadata: {name: orders, namespace: %s}
spec:
  source: {ref: {apiVersion: messaging.knative.dev/v1, kind: Channel, name: in, namespace: %s}}
  sink:
    broker:
      class: MTChannelBasedBroker
      config: {apiVersion: v1, kind: ConfigMap, name: config-br-default-channel, namespace: knative-eventing}
`

// admission admits events of a ServiceAccount at the Broker default.
const admission = `
apiVersion: eventing.knative.dev/v1alpha1
kind: EventPolicy
metadata: {name: orders, namespace: %s}
spec:
  to: [{ref: {apiVersion: eventing.knative.dev/v1, kind: Broker, name: default}}]
  from: [{sub: "system:serviceaccount:%s:%s"}]
`

// TestFlowsIntoAnotherNamespaceNeedAPolicy where Knative authenticates senders: without one every object is ready and each event is refused.
func TestFlowsIntoAnotherNamespaceNeedAPolicy(t *testing.T) {
	t.Parallel()
	s := &site{Cluster: testbed.Kubernetes(t), t: t}
	testbed.Knative(t, s.Cluster)
	s.Apply(t, oidcOn)
	s.installAll()
	startController(t, controller.Config{Cluster: open(t, account(t, s.Cluster))})
	from, to := s.Namespace(t), s.Namespace(t)
	s.Apply(t, fmt.Sprintf(channelIn, from))
	s.Apply(t, fmt.Sprintf(grant, from, to))
	s.Apply(t, fmt.Sprintf(flowBetween, to, from))
	s.await(to, "orders", "SubscriptionReady Unknown DeliveryUnverified", "SinkReady True SinkReady")

	name := s.list(subscriptions)[0].GetName()
	sender := ""
	s.Await(t, s.Dynamic.Resource(subscriptions).Namespace(from), name, func(o *unstructured.Unstructured) bool {
		sender, _, _ = unstructured.NestedString(o.Object, "status", "auth", "serviceAccountName")
		return sender != ""
	})
	s.Apply(t, fmt.Sprintf(admission, to, from, "another"))
	s.await(to, "orders", "SubscriptionReady Unknown DeliveryUnverified")
	s.Apply(t, fmt.Sprintf(admission, to, from, sender))
	s.await(to, "orders", "Ready True Ready")
	s.delete(schema.GroupVersionResource{Group: "eventing.knative.dev", Version: "v1alpha1", Resource: "eventpolicies"}, to, "orders")
	s.await(to, "orders", "SubscriptionReady Unknown DeliveryUnverified")
}
