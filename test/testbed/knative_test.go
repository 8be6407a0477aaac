//go:build services

package testbed_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/waybill-dev/waybill/test/testbed"
)

// knativeObjects gives the objects of a kind in a namespace.
func knativeObjects(cluster *testbed.Cluster, namespace, group, plural string) dynamic.ResourceInterface {
	return cluster.Dynamic.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural}).Namespace(namespace)
}

// address returns the URL at which an object receives events.
func address(object *unstructured.Unstructured) string {
	url, _, _ := unstructured.NestedString(object.Object, "status", "address", "url") // absent: it has none
	return url
}

func TestKnativeDeliversAnEventThroughAChannelAndABroker(t *testing.T) {
	t.Parallel()
	cluster := testbed.Kubernetes(t)
	knative := testbed.Knative(t, cluster)
	cluster.Collect(t)
	namespace := cluster.Namespace(t)
	sink := knative.Sink(t, namespace, "sink")
	cluster.Apply(t, fmt.Sprintf(route, namespace))
	parts := []struct {
		name    string
		objects dynamic.ResourceInterface
	}{
		{"in", knativeObjects(cluster, namespace, "messaging.knative.dev", "channels")},
		{"default", knativeObjects(cluster, namespace, "eventing.knative.dev", "brokers")},
		{"in", knativeObjects(cluster, namespace, "messaging.knative.dev", "subscriptions")},
		{"out", knativeObjects(cluster, namespace, "eventing.knative.dev", "triggers")},
	}
	ready := make([]*unstructured.Unstructured, len(parts))
	for i, part := range parts {
		ready[i] = cluster.Await(t, part.objects, part.name, func(o *unstructured.Unstructured) bool { return testbed.Ready(o) == "True" })
	}

	channel := address(ready[0])
	knative.Send(t, channel, testbed.Event{ID: "unwanted", Source: "/shop", Type: "order.deleted.v1", Data: `{}`})
	knative.Send(t, channel, testbed.Event{ID: "first", Source: "/shop", Type: "order.created.v1", Data: `{"id":42}`})
	got := sink.Await(t, "first")
	if got.Data != `{"id":42}` || got.Source != "/shop" || got.Type != "order.created.v1" {
		t.Errorf("the first event at the sink: got %+v", got)
	}

	knative.Dispatcher.Kill(t)
	knative.Dispatcher.Start(t)
	knative.Send(t, channel, testbed.Event{ID: "second", Source: "/shop", Type: "order.created.v1", Data: `{"id":43}`})
	sink.Await(t, "second")
	for id, want := range map[string]int{"first": 1, "second": 1, "unwanted": 0} {
		if got := sink.Count(id); got != want {
			t.Errorf("event %s at the sink: got %d times, want %d", id, got, want)
		}
	}

	channels := knativeObjects(cluster, namespace, "messaging.knative.dev", "inmemorychannels")
	for _, part := range parts {
		if err := part.objects.Delete(t.Context(), part.name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, part := range parts {
		cluster.AwaitGone(t, part.objects, part.name)
	}
	cluster.AwaitGone(t, channels, "in")
	cluster.AwaitGone(t, channels, "default-kne-trigger")
}

// route leads events of one type from a channel to a sink.
const route = `
apiVersion: messaging.knative.dev/v1
kind: Channel
metadata: {name: in, namespace: %[1]s}
spec: {channelTemplate: {apiVersion: messaging.knative.dev/v1, kind: InMemoryChannel}}
---
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata: {name: default, namespace: %[1]s, annotations: {eventing.knative.dev/broker.class: MTChannelBasedBroker}}
spec: {config: {apiVersion: v1, kind: ConfigMap, name: config-br-default-channel, namespace: knative-eventing}}
---
apiVersion: messaging.knative.dev/v1
kind: Subscription
metadata: {name: in, namespace: %[1]s}
spec:
  channel: {apiVersion: messaging.knative.dev/v1, kind: Channel, name: in}
  subscriber: {ref: {apiVersion: eventing.knative.dev/v1, kind: Broker, name: default}}
  delivery: {retry: 10, backoffPolicy: linear, backoffDelay: PT0.2S}
---
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {name: out, namespace: %[1]s, labels: {eventing.knative.dev/broker: default}}
spec:
  broker: default
  filter: {attributes: {type: order.created.v1}}
  subscriber: {ref: {apiVersion: v1, kind: Service, name: sink}}
`

func TestKnativesProxyLeadsNamesToServers(t *testing.T) {
	t.Parallel()
	cluster := testbed.Kubernetes(t)
	knative := testbed.Knative(t, cluster)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Host, r.URL.Path)
	}))
	t.Cleanup(server.Close)
	namespace := cluster.Namespace(t)
	service := knative.Forward(t, namespace, "app", server.URL)
	want := "app." + namespace + ".svc.cluster.local/healthz"
	if status, body := get(t, knative.Client(t), service+"/healthz"); status != http.StatusOK || body != want {
		t.Errorf("get from a Service: got %d %q, want %d %q", status, body, http.StatusOK, want)
	}
	for _, nothing := range []string{"http://other." + namespace + ".svc.cluster.local/", "http://broker-ingress.other.svc.cluster.local/"} {
		if status, body := get(t, knative.Client(t), nothing); status != http.StatusNotFound || !strings.HasPrefix(body, "testbed: no Service") {
			t.Errorf("get from %s: got %d %q, want %d of the proxy", nothing, status, body, http.StatusNotFound)
		}
	}
	ingress := "http://broker-ingress.knative-eventing.svc.cluster.local/"
	if status, _ := get(t, knative.Client(t), ingress); status != http.StatusMethodNotAllowed {
		t.Errorf("get from the brokers' ingress: got %d, want %d", status, http.StatusMethodNotAllowed)
	}
	knative.Ingress.Kill(t)
	if status, _ := get(t, knative.Client(t), ingress); status != http.StatusBadGateway {
		t.Errorf("get from a killed ingress: got %d, want %d", status, http.StatusBadGateway)
	}
}

// get returns the status and the body of an answer.
func get(t *testing.T, client *http.Client, address string) (status int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(content)
}

func TestClusterServesDefinitionsOfEventingsNeighbours(t *testing.T) {
	t.Parallel()
	cluster := testbed.Kubernetes(t)
	cluster.InstallReferenceGrants(t)
	cluster.InstallPeerAuthentications(t)
	cluster.InstallKyma(t)
	namespace := cluster.Namespace(t)
	cluster.Apply(t, fmt.Sprintf(neighbours, namespace))
	sources := schema.GroupVersionResource{Group: "sources.kyma-project.io", Version: "v1alpha1", Resource: "httpsources"}
	cluster.Await(t, cluster.Dynamic.Resource(sources).Namespace(namespace), "shop", func(o *unstructured.Unstructured) bool {
		source, _, _ := unstructured.NestedString(o.Object, "spec", "source") // absent: it was dropped
		return source == "shop"
	})
}

const neighbours = `
apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata: {name: shop, namespace: %[1]s}
spec:
  from: [{group: flow.waybill.dev, kind: EventFlow, namespace: other}]
  to: [{group: messaging.knative.dev, kind: Channel}]
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default-broker, namespace: %[1]s}
spec: {portLevelMtls: {'9090': {mode: PERMISSIVE}}}
---
apiVersion: applicationconnector.kyma-project.io/v1alpha1
kind: Application
metadata: {name: shop}
spec: {services: []}
---
apiVersion: applicationconnector.kyma-project.io/v1alpha1
kind: ApplicationMapping
metadata: {name: shop, namespace: %[1]s}
spec: {services: [{id: one}]}
---
apiVersion: applicationconnector.kyma-project.io/v1alpha1
kind: EventActivation
metadata: {name: shop, namespace: %[1]s}
spec: {sourceId: shop}
---
apiVersion: sources.kyma-project.io/v1alpha1
kind: HTTPSource
metadata: {name: shop, namespace: %[1]s}
spec: {source: shop}
`
