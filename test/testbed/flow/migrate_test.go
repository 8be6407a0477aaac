//go:build services

package flow_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/internal/flow/controller"
	"github.com/waybill-dev/waybill/test/testbed"
)

var product testbed.Product

func TestMain(m *testing.M) {
	code := m.Run()
	if err := product.Remove(); err != nil && code == 0 {
		code = 1
	}
	os.Exit(code)
}

// former is a namespace as Kyma's application broker has left it: a service instance for events with a Subscription, and a Broker that
// Knative has injected.
const former = `
{apiVersion: v1, kind: Namespace, metadata: {name: %[1]s, labels: {knative-eventing-injection: enabled}}}
---
apiVersion: applicationconnector.kyma-project.io/v1alpha1
kind: Application
metadata: {name: commerce}
spec: {services: [{id: svc-orders, entries: [{type: Events}]}]}
---
{apiVersion: applicationconnector.kyma-project.io/v1alpha1, kind: ApplicationMapping, metadata: {name: commerce, namespace: %[1]s}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: kyma-integration}}
---
{apiVersion: sources.kyma-project.io/v1alpha1, kind: HTTPSource, metadata: {name: commerce, namespace: kyma-integration}}
---
apiVersion: messaging.knative.dev/v1
kind: Channel
metadata: {name: commerce-x, namespace: kyma-integration, labels: {application-name: commerce}}
spec: {channelTemplate: {apiVersion: messaging.knative.dev/v1, kind: InMemoryChannel}}
---
apiVersion: messaging.knative.dev/v1
kind: Subscription
metadata: {name: brokersub-1, namespace: kyma-integration, labels: {application-name: commerce, broker-namespace: %[1]s}}
spec:
  channel: {apiVersion: messaging.knative.dev/v1, kind: Channel, name: commerce-x}
  subscriber: {uri: "http://default.example"}
---
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata: {name: default, namespace: %[1]s, labels: {eventing.knative.dev/injected: "true"}}
---
apiVersion: servicecatalog.k8s.io/v1beta1
kind: ServiceBroker
metadata: {name: application-broker, namespace: %[1]s}
spec: {url: "http://application-broker.kyma-system.svc.cluster.local/%[1]s"}
---
apiVersion: servicecatalog.k8s.io/v1beta1
kind: ServiceClass
metadata: {name: class, namespace: %[1]s}
spec: {serviceBrokerName: application-broker, externalID: svc-orders}
---
apiVersion: servicecatalog.k8s.io/v1beta1
kind: ServicePlan
metadata: {name: plan, namespace: %[1]s}
spec: {externalID: svc-orders-plan}
---
apiVersion: servicecatalog.k8s.io/v1beta1
kind: ServiceInstance
metadata: {name: orders, namespace: %[1]s}
spec: {externalID: id-orders, serviceClassRef: {name: class}, servicePlanRef: {name: plan}}
`

// TestAMigrationOnARealAPIServer with the rights of rbac.yaml alone: the command is killed again and again, then ends, and goes back in
// the same way. The Subscription and the Broker stay the same objects.
func TestAMigrationOnARealAPIServer(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.installAll()
	s.InstallKyma(t)
	s.InstallServiceCatalog(t)
	startController(t, controller.Config{Cluster: open(t, account(t, s.Cluster))})
	const namespace = "shop"
	s.Apply(t, fmt.Sprintf(former, namespace))
	instances := s.Dynamic.Resource(schema.GroupVersionResource{Group: "servicecatalog.k8s.io", Version: "v1beta1", Resource: "serviceinstances"})
	ready := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "servicecatalog.k8s.io/v1beta1", "kind": "ServiceInstance",
		"metadata": map[string]any{"name": "orders"},
		"status":   map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}}}
	if _, err := instances.Namespace(namespace).ApplyStatus(t.Context(), "orders", ready, metav1.ApplyOptions{FieldManager: "testbed"}); err != nil {
		t.Fatal(err)
	}
	broker := s.Await(t, s.Dynamic.Resource(brokers).Namespace(namespace), "default", isObserved)
	subscription := s.Await(t, s.Dynamic.Resource(subscriptions).Namespace("kyma-integration"), "brokersub-1", isObserved)

	m := newMigrant(t, s)
	m.untilItEnds("--user", "waybill", "--broker-url", "http://waybill.example", "--apply")
	s.await(namespace, "event-flow-id-orders", "Ready True Ready")
	s.wantClaims("event-flow-id-orders")
	if shown := m.run("broker", "show", "id-orders"); !strings.Contains(shown, "ready") {
		t.Errorf("the row of the service instance: %s", shown)
	}
	m.untilItEnds("--revert", "--apply")
	if left := s.list(flows); len(left) > 0 {
		t.Errorf("%d flows are left", len(left))
	}
	for _, was := range []*unstructured.Unstructured{broker, subscription} {
		in := brokers
		if was.GetKind() == subscription.GetKind() {
			in = subscriptions
		}
		now, err := s.Dynamic.Resource(in).Namespace(was.GetNamespace()).Get(t.Context(), was.GetName(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if now.GetUID() != was.GetUID() || len(now.GetAnnotations()) != len(was.GetAnnotations()) || len(now.GetLabels()) != len(was.GetLabels()) {
			t.Errorf("%s was %v and is %v", was.GetKind(), was.Object["metadata"], now.Object["metadata"])
		}
	}
	found, err := s.Dynamic.Resource(namespaces).Get(t.Context(), namespace, metav1.GetOptions{})
	if err != nil || found.GetLabels()["knative-eventing-injection"] != "enabled" {
		t.Errorf("the namespace has the labels %v (%v)", found.GetLabels(), err)
	}
}

func isObserved(o *unstructured.Unstructured) bool {
	seen, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	return seen == o.GetGeneration()
}

// migrant runs the program as a person who may migrate.
type migrant struct {
	t                   *testing.T
	program, kubeconfig string
	home                string
}

func newMigrant(t *testing.T, s *site) *migrant {
	t.Helper()
	m := &migrant{t: t, program: product.Path(t, "../../.."), home: t.TempDir()}
	m.kubeconfig = filepath.Join(m.home, "kubeconfig")
	write(t, m.kubeconfig, s.Account(t, "waybill", "migrant"))
	s.Apply(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: migrant}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: waybill-flow-migrate}
subjects: [{kind: ServiceAccount, name: migrant, namespace: waybill}]
`)
	m.run("token", "create", "ci", "--scope", "read") // makes the log
	return m
}

// run runs a command, which must succeed, and returns its output.
func (m *migrant) run(arguments ...string) string {
	m.t.Helper()
	output, err := m.command(m.t.Context(), arguments...)
	if err != nil {
		m.t.Fatalf("waybill %s: %v\n%s", strings.Join(arguments, " "), err, output)
	}
	return output
}

func (m *migrant) command(ctx context.Context, arguments ...string) (output string, err error) {
	c := exec.CommandContext(ctx, m.program, arguments...)
	c.Dir = m.home
	c.WaitDelay = 10 * time.Second
	text, err := c.CombinedOutput()
	return string(text), err
}

// untilItEnds migrates, and is killed later in each run, until one has ended.
func (m *migrant) untilItEnds(arguments ...string) {
	m.t.Helper()
	arguments = append([]string{"flow", "migrate", "--kubeconfig", m.kubeconfig}, arguments...)
	last := ""
	for life := 100 * time.Millisecond; life < time.Minute; life += life / 5 {
		ctx, cancel := context.WithTimeout(m.t.Context(), life)
		output, err := m.command(ctx, arguments...)
		killed := ctx.Err() != nil
		cancel()
		if err == nil {
			return
		}
		last = output
		if exit, ok := errors.AsType[*exec.ExitError](err); !killed && (!ok || exit.ExitCode() != 1) { // 1: not ready yet
			m.t.Fatalf("%v\n%s", err, output)
		}
	}
	m.t.Fatalf("it does not end: %s", last)
}
