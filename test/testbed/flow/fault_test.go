//go:build services

package flow_test

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/flow/controller"
)

// channelIn is a Channel.
const channelIn = `
apiVersion: messaging.knative.dev/v1
kind: Channel
metadata: {name: in, namespace: %s}
spec: {channelTemplate: {apiVersion: messaging.knative.dev/v1, kind: InMemoryChannel}}
`

// flowFrom is a flow from the Channel of a namespace to the Broker of its own.
const flowFrom = `
apiVersion: flow.waybill.dev/v1alpha1
kind: EventFlow
metadata: {name: %[2]s, namespace: %[1]s}
spec:
  source: {ref: {apiVersion: messaging.knative.dev/v1, kind: Channel, name: in, namespace: %[3]s}}
  sink: {broker: {}}
`

// grant opens the Channels of a namespace to flows of another namespace.
const grant = `
apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata: {name: orders, namespace: %s}
spec:
  from: [{group: flow.waybill.dev, kind: EventFlow, namespace: %s}]
  to: [{group: messaging.knative.dev, kind: Channel}]
`

// TestDefinitionsComeAndGo while one controller runs: each that is missing is a state of the flow, and no deletion waits for it.
func TestDefinitionsComeAndGo(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	startController(t, controller.Config{Cluster: open(t, account(t, s.Cluster))})
	namespace := s.Namespace(t)
	s.Apply(t, string(v1alpha1.Definition))
	s.Apply(t, fmt.Sprintf(flowFrom, namespace, "orders", namespace))
	s.await(namespace, "orders", "SourceReady False SourceKindNotInstalled", "SinkReady False BrokerKindNotInstalled")
	s.InstallKnative(t)
	s.await(namespace, "orders", "SourceReady False SourceNotFound", "SinkReady True SinkReady")
	s.Apply(t, fmt.Sprintf(channelIn, namespace))
	s.await(namespace, "orders", "Ready True Ready")

	s.undefine(brokers)
	s.await(namespace, "orders", "SinkReady False BrokerKindNotInstalled")
	s.undefine(subscriptions)
	s.await(namespace, "orders", "SubscriptionReady False SubscriptionKindNotInstalled")
	s.Apply(t, fmt.Sprintf(flowFrom, namespace, "returns", namespace))
	s.await(namespace, "returns", "SinkReady False BrokerKindNotInstalled")
	s.delete(flows, namespace, "returns")
	s.AwaitGone(t, s.Dynamic.Resource(flows).Namespace(namespace), "returns")
	s.InstallKnative(t)
	s.await(namespace, "orders", "Ready True Ready")

	s.undefine(flows) // deletes the flow, and waits for it
	s.AwaitGone(t, s.Dynamic.Resource(brokers).Namespace(namespace), "default")
	if left := s.list(subscriptions); len(left) > 0 {
		t.Errorf("%d Subscriptions are left", len(left))
	}
	s.Apply(t, string(v1alpha1.Definition))
	s.Apply(t, fmt.Sprintf(flowFrom, namespace, "orders", namespace))
	s.await(namespace, "orders", "Ready True Ready")
}

// TestANamespaceIsDeleted with its flow, whose Subscription in another namespace goes too.
func TestANamespaceIsDeleted(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.installAll()
	s.Collect(t)
	startController(t, controller.Config{Cluster: open(t, account(t, s.Cluster))})
	from, to := s.Namespace(t), s.Namespace(t)
	s.Apply(t, fmt.Sprintf(channelIn, from))
	s.Apply(t, fmt.Sprintf(flowFrom, to, "orders", from))
	s.await(to, "orders", "SourceReady False ReferenceNotAllowed")
	s.Apply(t, fmt.Sprintf(grant, from, to))
	s.await(to, "orders", "Ready True Ready")
	if left := s.list(subscriptions); len(left) != 1 || left[0].GetNamespace() != from {
		t.Errorf("Subscriptions: %v", left)
	}
	s.delete(namespaces, "", to)
	s.AwaitGone(t, s.Dynamic.Resource(namespaces), to)
	if left := s.list(subscriptions); len(left) > 0 {
		t.Errorf("Subscriptions are left: %v", left)
	}
}

// TestInstancesWithoutElection share a namespace while a proxy delays their writes, and the answers to these, until any other may have
// come first; they are killed, and users delete flows and apply them again at once.
func TestInstancesWithoutElection(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.installAll()
	kubeconfig := s.shuffled(account(t, s.Cluster))
	start := func() (stop func()) { return startController(t, controller.Config{Cluster: open(t, kubeconfig)}) }
	namespace := s.Namespace(t)
	s.Apply(t, fmt.Sprintf(channelIn, namespace))
	names := []string{"a", "b", "c"}
	apply := func() {
		for _, name := range names {
			s.Apply(t, fmt.Sprintf(flowFrom, namespace, name, namespace))
		}
	}
	start()
	stop := start()
	for round := range 12 {
		apply()
		s.delete(flows, namespace, names[round%3])
		if round%3 == 2 {
			stop()
			stop = start()
		}
	}

	for _, o := range s.list(flows) {
		if o.GetDeletionTimestamp() != nil {
			s.AwaitGone(t, s.Dynamic.Resource(flows).Namespace(namespace), o.GetName())
		}
	}
	apply()
	for _, name := range names {
		s.await(namespace, name, "Ready True Ready")
	}
	s.wantClaims(names...)
	for i, name := range names {
		s.delete(flows, namespace, name)
		s.AwaitGone(t, s.Dynamic.Resource(flows).Namespace(namespace), name)
		s.wantClaims(names[i+1:]...)
	}
}

// wantClaims compares the flows that claim the Broker, and the one Subscription; none: neither exists.
func (s *site) wantClaims(want ...string) {
	s.t.Helper()
	for _, resource := range []schema.GroupVersionResource{brokers, subscriptions} {
		var got [][]string
		for _, o := range s.list(resource) {
			var claimants []string
			for key, value := range o.GetAnnotations() {
				if strings.HasPrefix(key, v1alpha1.ClaimPrefix) {
					claimants = append(claimants, path.Base(value))
				}
			}
			slices.Sort(claimants)
			got = append(got, claimants)
		}
		if len(want) == 0 && len(got) == 0 {
			continue
		}
		if len(got) != 1 || !slices.Equal(got[0], want) {
			s.t.Errorf("%s have the claims %v, want one with %v", resource.Resource, got, want)
		}
	}
}
