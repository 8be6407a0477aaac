package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/test/testbed"
	"github.com/waybill-dev/waybill/test/testbed/visitor"
)

// demo is one event flow in front of a visitor.
type demo struct {
	*visitor.Visit
	cluster *testbed.Cluster
	knative *testbed.Eventing
	home    string // Waybill's
	key     string // access token of the trigger order-created
}

// settings is server.yaml: the flows of a cluster, and a trigger that hands the order's number to a command.
const settings = `flow: {kubeconfig: %q}
handlers:
  import-order:
    type: shell
    parameters: {order: {type: integer}}
    command: {argv: [sh, -c, 'cat >"$WAYBILL_OUTPUT"']}
triggers:
  order-created:
    filter: {exact: {type: com.example.order.created}}
    handler: import-order
    parameters: {order: {path: $.data.id}}
    keys: [%x]
`

// objects are a Channel, the flow of its events to the Broker default, and the Trigger that has the Broker send them to Waybill. Without
// Knative's webhook, the flow names class and configuration of the Broker.
const objects = `
apiVersion: messaging.knative.dev/v1
kind: Channel
metadata: {name: orders, namespace: shop}
spec: {channelTemplate: {apiVersion: messaging.knative.dev/v1, kind: InMemoryChannel}}
---
apiVersion: flow.waybill.dev/v1alpha1
kind: EventFlow
metadata: {name: orders, namespace: shop}
spec:
  source: {ref: {apiVersion: messaging.knative.dev/v1, kind: Channel, name: orders}}
  sink:
    broker:
      class: MTChannelBasedBroker
      config: {apiVersion: v1, kind: ConfigMap, name: config-br-default-channel, namespace: knative-eventing}
  delivery: {retry: 10, backoffPolicy: exponential, backoffDelay: PT0.2S}
---
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {name: waybill, namespace: shop, labels: {eventing.knative.dev/broker: default}}
spec:
  broker: default
  subscriber:
    ref: {apiVersion: v1, kind: Service, name: waybill}
    uri: /api/v1/events/order-created?access_token=%s
`

// next are lines for a second terminal: the kubeconfig, the home, the program, and the folder of the repository.
const next = `
Try in a second terminal:

  export KUBECONFIG=%s WAYBILL_HOME=%s
  alias waybill=%s
  kubectl get ef -A
  kubectl delete broker default -n shop    # it is made again
  waybill flow show shop/orders
  kubectl apply -f %s/examples/flow/returns.yaml
  waybill flow list -n shop

Ctrl-C, or Enter, ends everything.
`

func (d *demo) run(t testing.TB) {
	d.Printf("Starting a Kubernetes API server, Knative Eventing and Waybill.\n")
	began := time.Now()
	d.cluster = testbed.Kubernetes(t)
	d.knative = testbed.Knative(t, d.cluster)
	d.cluster.Apply(t, string(v1alpha1.Definition))
	d.cluster.DefaultKnative(t)
	d.cluster.Apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}")
	login := d.start(t)
	d.Printf("After %s all run. See what they do:\n\n  open %s&next=%s\n\nPress Enter to apply a Channel, a flow from it and a Trigger.\n",
		time.Since(began).Round(time.Second), login, url.QueryEscape("/flows"))
	d.Pause(t)

	d.cluster.Apply(t, fmt.Sprintf(objects, d.key))
	d.Report("applied Channel orders, EventFlow orders, Trigger waybill in namespace shop")
	ready := func(o *unstructured.Unstructured) bool { return testbed.Ready(o) == "True" }
	d.cluster.Await(t, d.objects(v1alpha1.Group, v1alpha1.Version, "eventflows"), "orders", ready)
	d.Report("the flow is Ready")
	d.command(t, "flow", "show", "shop/orders")
	d.cluster.Await(t, d.objects("eventing.knative.dev", "v1", "triggers"), "waybill", ready)
	channel := d.cluster.Await(t, d.objects("messaging.knative.dev", "v1", "channels"), "orders", ready)
	address, _, err := unstructured.NestedString(channel.Object, "status", "address", "url")
	if err != nil {
		t.Fatalf("the address of the Channel: %v", err)
	}
	d.knative.Send(t, address, testbed.Event{ID: "1", Source: "/shop", Type: "com.example.order.created", Data: `{"id": 42}`})
	d.Report("sent a CloudEvent to the Channel")
	d.awaitAction(t)
	d.Report("it has become an action")
	d.command(t, "action", "list", "--handler", "import-order")
	d.Printf(next, d.cluster.Kubeconfig, d.home, d.Program, d.clone(t))
	d.Pause(t)
}

// start runs waybill up, and returns the address that logs the visitor in.
func (d *demo) start(t testing.TB) (login string) {
	t.Helper()
	d.home, d.key = t.TempDir(), rand.Text()
	digest := sha256.Sum256([]byte(d.key))
	if err := os.WriteFile(filepath.Join(d.home, "server.yaml"), fmt.Appendf(nil, settings, d.cluster.Kubeconfig, digest), 0o600); err != nil {
		t.Fatal(err)
	}
	address := testbed.FreeAddress(t)
	terminal := visitor.OpenTerminal(t)
	testbed.RunProgram(t, testbed.Program{Name: "waybill", Out: terminal.Theirs, Ready: answers("http://" + address + "/readyz"),
		Argv: []string{d.Program, "up", "--home", d.home, "--listen", address}})
	d.knative.Forward(t, "shop", "waybill", "http://"+address)
	return terminal.Login(t)
}

// answers returns a function that reports whether a URL answers with success.
func answers(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", url, response.Status)
		}
		return nil
	}
}

func (d *demo) objects(group, version, resource string) dynamic.ResourceInterface {
	return d.cluster.Dynamic.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: resource}).Namespace("shop")
}

// command prints a command and its output.
func (d *demo) command(t testing.TB, arguments ...string) {
	t.Helper()
	out, err := d.waybill(t, arguments...)
	if err != nil {
		t.Fatalf("waybill %s: %v: %s", strings.Join(arguments, " "), err, out)
	}
	d.Printf("\n$ waybill %s\n%s\n", strings.Join(arguments, " "), out)
}

func (d *demo) waybill(t testing.TB, arguments ...string) ([]byte, error) {
	return exec.CommandContext(t.Context(), d.Program, append(arguments, "--home", d.home)...).CombinedOutput()
}

// clone returns the folder of the repository: the program runs in test/testbed.
func (*demo) clone(t testing.TB) string {
	t.Helper()
	folder, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// awaitAction waits until the action of the event has succeeded.
func (d *demo) awaitAction(t testing.TB) {
	t.Helper()
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for {
		out, err := d.waybill(t, "action", "list", "--handler", "import-order")
		if err == nil && strings.Contains(string(out), " successful ") {
			return
		}
		select {
		case <-again.C:
		case <-t.Context().Done():
			t.Fatalf("the event has not become an action: %s", out)
		}
	}
}
