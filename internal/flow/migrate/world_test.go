package migrate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/flow/controller"
	"github.com/waybill-dev/waybill/internal/flow/migrate"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/services"
)

// kinds are those of the cluster, by the name of the kind.
var kinds = map[string]schema.GroupVersionResource{
	"EventFlow": v1alpha1.Resource(), "Broker": kindOf("eventing.knative.dev/v1", "brokers"),
	"EventPolicy": kindOf("eventing.knative.dev/v1alpha1", "eventpolicies"), "Channel": kindOf("messaging.knative.dev/v1", "channels"),
	"Subscription":   kindOf("messaging.knative.dev/v1", "subscriptions"),
	"ReferenceGrant": kindOf("gateway.networking.k8s.io/v1", "referencegrants"), "PeerAuthentication": kindOf("security.istio.io/v1beta1", "peerauthentications"),
	"ApplicationMapping": kindOf("applicationconnector.kyma-project.io/v1alpha1", "applicationmappings"),
	"Application":        kindOf("applicationconnector.kyma-project.io/v1alpha1", "applications"),
	"EventActivation":    kindOf("applicationconnector.kyma-project.io/v1alpha1", "eventactivations"),
	"HTTPSource":         kindOf("sources.kyma-project.io/v1alpha1", "httpsources"),
	"ServiceInstance":    kindOf("servicecatalog.k8s.io/v1beta1", "serviceinstances"),
	"ServiceClass":       kindOf("servicecatalog.k8s.io/v1beta1", "serviceclasses"),
	"ServicePlan":        kindOf("servicecatalog.k8s.io/v1beta1", "serviceplans"),
	"ServiceBroker":      kindOf("servicecatalog.k8s.io/v1beta1", "servicebrokers"),
	"Namespace":          kindOf("v1", "namespaces"), "ConfigMap": kindOf("v1", "configmaps"), "Deployment": kindOf("apps/v1", "deployments"),
}

func kindOf(version, resource string) schema.GroupVersionResource {
	parsed, _ := schema.ParseGroupVersion(version)
	return parsed.WithResource(resource)
}

// shop is a namespace with two service instances of an Application for events, as the old broker leaves them, and one for an API.
const shop = `
{kind: Namespace, metadata: {name: shop, uid: shop-uid, labels: {knative-eventing-injection: enabled, own: kept}}}
---
{kind: ConfigMap, metadata: {name: cluster-info, namespace: kyma-system}, data: {id: cluster-1}}
---
{kind: Application, metadata: {name: commerce}, spec: {compassMetadata: {applicationId: app-1}, services: [
  {id: svc-orders, displayName: Orders, entries: [{type: API}, {type: Events}]}, {id: svc-returns, entries: [{type: Events}]}, {id: svc-api, entries: [{type: API}]}]}}
---
{kind: ApplicationMapping, metadata: {name: commerce, namespace: shop}}
---
{kind: HTTPSource, metadata: {name: commerce, namespace: kyma-integration}, status: {conditions: [{type: Ready, status: "True"}]}}
---
{kind: Channel, metadata: {name: commerce-x, namespace: kyma-integration, labels: {application-name: commerce}}, status: {conditions: [{type: Ready, status: "True"}]}}
---
{kind: Subscription, metadata: {name: brokersub-1, namespace: kyma-integration, creationTimestamp: "1999-01-01T00:00:00Z",
  labels: {application-name: commerce, broker-namespace: shop}},
  spec: {channel: {apiVersion: messaging.knative.dev/v1alpha1, kind: Channel, name: commerce-x}, subscriber: {uri: "http://default-broker.shop.svc.cluster.local"}}}
---
{kind: Broker, metadata: {name: default, namespace: shop, labels: {eventing.knative.dev/namespaceInjected: "true"}}}
---
{kind: PeerAuthentication, metadata: {name: shop-broker, namespace: shop}, spec: {selector: {matchLabels: {eventing.knative.dev/broker: default}}}}
---
{kind: EventActivation, metadata: {name: svc-orders, namespace: shop}, spec: {sourceId: commerce}}
---
{kind: ServiceBroker, metadata: {name: application-broker, namespace: shop}, spec: {url: "http://application-broker.kyma-system.svc.cluster.local/shop"}}
---
{kind: ServiceClass, metadata: {name: c1, namespace: shop}, spec: {serviceBrokerName: application-broker, externalID: svc-orders}}
---
{kind: ServicePlan, metadata: {name: p1, namespace: shop}, spec: {externalID: svc-orders-plan}}
---
{kind: ServiceClass, metadata: {name: c2, namespace: shop}, spec: {serviceBrokerName: application-broker, externalID: app-1}}
---
{kind: ServicePlan, metadata: {name: p2, namespace: shop}, spec: {externalID: svc-returns}}
---
{kind: ServiceClass, metadata: {name: c3, namespace: shop}, spec: {serviceBrokerName: application-broker, externalID: svc-api}}
---
{kind: ServiceClass, metadata: {name: c4, namespace: shop}, spec: {serviceBrokerName: another, externalID: svc-orders}}
---
{kind: ServiceInstance, metadata: {name: orders, namespace: shop}, spec: {externalID: id-orders, serviceClassRef: {name: c1}, servicePlanRef: {name: p1},
  parameters: {b: 1, a: "x"}}, status: {conditions: [{type: Ready, status: "True"}]}}
---
{kind: ServiceInstance, metadata: {name: returns, namespace: shop}, spec: {externalID: id-returns, serviceClassRef: {name: c2}, servicePlanRef: {name: p2}},
  status: {conditions: [{type: Ready, status: "True"}]}}
---
{kind: ServiceInstance, metadata: {name: api, namespace: shop}, spec: {externalID: id-api, serviceClassRef: {name: c3}}, status: {conditions: [{type: Ready, status: "True"}]}}
---
{kind: ServiceInstance, metadata: {name: elsewhere, namespace: shop}, spec: {externalID: id-else, serviceClassRef: {name: c4}}, status: {conditions: [{type: Ready, status: "True"}]}}
`

// parse reads objects in YAML. Their API versions are those of kinds.
func parse(t testing.TB, text string) (objects []*unstructured.Unstructured) {
	t.Helper()
	for part := range strings.SplitSeq(text, "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(part), &o.Object); err != nil {
			t.Fatalf("%v in %s", err, part)
		}
		if o.Object == nil {
			continue
		}
		resource, known := kinds[o.GetKind()]
		if !known {
			t.Fatalf("the kind %q is not known", o.GetKind())
		}
		o.SetAPIVersion(resource.GroupVersion().String())
		o.SetGeneration(1)
		objects = append(objects, o)
	}
	return objects
}

// world is a cluster with Knative and a log.
type world struct {
	t    *testing.T
	api  *kubetest.API
	log  *rows
	stop func() // stops Knative
}

// newWorld returns a cluster with some objects. Knative makes its objects ready until the test ends.
func newWorld(t *testing.T, text string) *world {
	t.Helper()
	w := &world{t: t, api: kubetest.New(t), log: &rows{id: action.DerivedID(time.Unix(1, 0), "log"), all: map[string]services.Instance{}}}
	for name, resource := range kinds {
		w.api.Install(kubetest.Kind{GroupVersionResource: resource, Kind: name, Status: true, Cluster: name == "Namespace" || name == "Application"})
	}
	w.add(text)
	w.startKnative()
	return w
}

// add stores objects as they are, with their status.
func (w *world) add(text string) {
	w.t.Helper()
	for _, o := range parse(w.t, text) {
		w.api.Add(kinds[o.GetKind()], o)
	}
}

// startKnative has Knative make Brokers and Subscriptions ready.
func (w *world) startKnative() {
	ctx, cancel := context.WithCancel(w.t.Context())
	var loops sync.WaitGroup
	for _, name := range []string{"Broker", "Subscription"} {
		objects := w.api.Resource(kinds[name])
		changes, err := objects.Watch(ctx, metav1.ListOptions{})
		if err != nil {
			w.t.Fatal(err)
		}
		loops.Go(func() {
			defer changes.Stop()
			for {
				select {
				case event := <-changes.ResultChan():
					if o, ok := event.Object.(*unstructured.Unstructured); ok {
						w.settle(ctx, o)
					}
				case <-ctx.Done():
					return
				}
			}
		})
	}
	w.stop = func() {
		cancel()
		loops.Wait()
	}
	w.t.Cleanup(w.stop)
	for _, name := range []string{"Broker", "Subscription"} {
		for _, o := range w.list(name) {
			w.settle(w.t.Context(), &o)
		}
	}
}

// settle makes an object ready.
func (w *world) settle(ctx context.Context, o *unstructured.Unstructured) {
	status := map[string]any{"observedGeneration": o.GetGeneration(), "conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}
	if o.GetKind() == "Broker" {
		status["address"] = map[string]any{"url": fmt.Sprintf("http://ingress.example/%s/%s", o.GetNamespace(), o.GetName())}
	}
	text, _ := json.Marshal(map[string]any{"status": status})
	_, _ = w.api.Resource(kinds[o.GetKind()]).Namespace(o.GetNamespace()).Patch(ctx, o.GetName(), types.MergePatchType, text,
		metav1.PatchOptions{}, "status") // it may be gone
}

// startController runs the role flow until the test ends.
func (w *world) startController() {
	ctx, cancel := context.WithCancel(w.t.Context())
	c := controller.New(controller.Config{Cluster: w.api.Cluster("waybill"), Applications: []string{"kyma-integration"}, Identity: "test",
		Log: slog.New(slog.DiscardHandler)})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := c.Run(ctx); err != nil {
			w.t.Errorf("run: %v", err)
		}
	}()
	w.t.Cleanup(func() {
		cancel()
		<-ended
	})
	rest()
}

// rest waits until nothing moves.
func rest() {
	<-time.After(time.Second)
	synctest.Wait()
}

// config returns the configuration of a migration; kill is called before each of its requests.
func (w *world) config(kill func() error) migrate.Config {
	return migrate.Config{
		Settings: migrate.Settings{User: "platform", Ignore: []string{"kyma-system"}, Integration: []string{"kyma-integration"},
			BrokerURL: "http://waybill.example/", BrokerSecret: "login"},
		Cluster: &kube.Cluster{Interface: mortal{w.api, kill}}, Log: mortalLog{w.log, kill}, Wait: 30 * time.Second,
		Progress: func(t *migrate.Task, s *migrate.Step) {
			if s != nil {
				w.t.Logf("%s: %s", t.Title(), s.Text)
			}
		},
	}
}

// migration returns a migration that is not killed.
func (w *world) migration() *migrate.Migration {
	return migrate.New(w.config(func() error { return nil }))
}

// list returns the objects of a kind.
func (w *world) list(name string) []unstructured.Unstructured {
	w.t.Helper()
	all, err := w.api.Resource(kinds[name]).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	slices.SortFunc(all.Items, func(a, b unstructured.Unstructured) int {
		return strings.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName())
	})
	return all.Items
}

// get returns an object; nil: there is none.
func (w *world) get(name, namespace, object string) *unstructured.Unstructured {
	w.t.Helper()
	for _, one := range w.list(name) {
		if one.GetNamespace() == namespace && one.GetName() == object {
			return &one
		}
	}
	return nil
}

// rows is a log with nothing but rows of service instances.
type rows struct {
	id  action.ID
	mu  sync.Mutex
	all map[string]services.Instance
}

// row returns a row; nil: there is none.
func (r *rows) row(id string) *services.Instance {
	r.mu.Lock()
	defer r.mu.Unlock()
	if found, is := r.all[id]; is {
		return &found
	}
	return nil
}

// mortalLog is a log whose requests fail once the client was killed.
type mortalLog struct {
	*rows
	kill func() error
}

func (m mortalLog) ID(context.Context) (action.ID, error) { return m.id, m.kill() }

func (m mortalLog) Service(_ context.Context, key ledger.ServiceKey) (ledger.ServiceState, error) {
	return ledger.ServiceState{Row: m.row(key.Instance), Now: time.Now()}, m.kill()
}

func (m mortalLog) Operate(_ context.Context, key ledger.ServiceKey, decide func(ledger.ServiceState) (ledger.ServiceChange, error)) error {
	if err := m.kill(); err != nil {
		return err
	}
	change, err := decide(ledger.ServiceState{Row: m.row(key.Instance), Now: time.Now()})
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if change.Row != nil {
		m.all[key.Instance] = *change.Row
	}
	return nil
}

// mortal is a client of a cluster whose requests fail once it was killed.
type mortal struct {
	dynamic.Interface
	kill func() error
}

func (m mortal) Resource(resource schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	all := m.Interface.Resource(resource)
	return mortalKind{mortalObjects{all, m.kill}, all}
}

type mortalKind struct {
	mortalObjects
	all dynamic.NamespaceableResourceInterface
}

func (m mortalKind) Namespace(name string) dynamic.ResourceInterface {
	return mortalObjects{m.all.Namespace(name), m.kill}
}

type mortalObjects struct {
	dynamic.ResourceInterface
	kill func() error
}

func (m mortalObjects) List(ctx context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	if err := m.kill(); err != nil {
		return nil, err
	}
	return m.ResourceInterface.List(ctx, o)
}

func (m mortalObjects) Get(ctx context.Context, name string, o metav1.GetOptions, parts ...string) (*unstructured.Unstructured, error) {
	if err := m.kill(); err != nil {
		return nil, err
	}
	return m.ResourceInterface.Get(ctx, name, o, parts...)
}

func (m mortalObjects) Create(ctx context.Context, x *unstructured.Unstructured, o metav1.CreateOptions, parts ...string) (*unstructured.Unstructured, error) {
	if err := m.kill(); err != nil {
		return nil, err
	}
	return m.ResourceInterface.Create(ctx, x, o, parts...)
}

func (m mortalObjects) Patch(ctx context.Context, name string, as types.PatchType, text []byte, o metav1.PatchOptions, parts ...string) (*unstructured.Unstructured, error) {
	if err := m.kill(); err != nil {
		return nil, err
	}
	return m.ResourceInterface.Patch(ctx, name, as, text, o, parts...)
}

func (m mortalObjects) Delete(ctx context.Context, name string, o metav1.DeleteOptions, parts ...string) error {
	if err := m.kill(); err != nil {
		return err
	}
	return m.ResourceInterface.Delete(ctx, name, o, parts...)
}

// state returns the objects that a migration is about, without versions, times and statuses.
func (w *world) state() map[string]any {
	all := map[string]any{}
	for _, name := range []string{"Subscription", "Broker", "EventActivation", "Namespace", "ServiceBroker", "EventFlow", "PeerAuthentication"} {
		for _, o := range w.list(name) {
			annotations := maps.Clone(o.GetAnnotations())
			all[name+" "+o.GetNamespace()+"/"+o.GetName()] = map[string]any{"spec": o.Object["spec"], "labels": o.GetLabels(),
				"annotations": annotations, "uid": string(o.GetUID()), "finalizers": o.GetFinalizers()}
		}
	}
	return all
}
