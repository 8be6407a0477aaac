package controller_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/flow/controller"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
	"github.com/waybill-dev/waybill/internal/obs"
)

// The resources of the world.
var (
	flows         = v1alpha1.Resource()
	definitions   = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	brokers       = schema.GroupVersionResource{Group: "eventing.knative.dev", Version: "v1", Resource: "brokers"}
	policies      = schema.GroupVersionResource{Group: "eventing.knative.dev", Version: "v1alpha1", Resource: "eventpolicies"}
	channels      = schema.GroupVersionResource{Group: "messaging.knative.dev", Version: "v1", Resource: "channels"}
	subscriptions = schema.GroupVersionResource{Group: "messaging.knative.dev", Version: "v1", Resource: "subscriptions"}
	grants        = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1beta1", Resource: "referencegrants"}
	peers         = schema.GroupVersionResource{Group: "security.istio.io", Version: "v1", Resource: "peerauthentications"}
	mappings      = schema.GroupVersionResource{Group: "applicationconnector.kyma-project.io", Version: "v1alpha1", Resource: "applicationmappings"}
	sources       = schema.GroupVersionResource{Group: "sources.kyma-project.io", Version: "v1alpha1", Resource: "httpsources"}
	clocks        = schema.GroupVersionResource{Group: "sources.example", Version: "v1", Resource: "clocks"} // installed by tests
	services      = schema.GroupVersionResource{Version: "v1", Resource: "services"}                         // installed by tests
)

// served are the kinds of the world by their resource, and whether they are channels.
var served = map[schema.GroupVersionResource]struct {
	kind         string
	subscribable bool
}{
	flows: {kind: "EventFlow"}, brokers: {kind: "Broker"}, policies: {kind: "EventPolicy"}, channels: {"Channel", true},
	subscriptions: {kind: "Subscription"}, grants: {kind: "ReferenceGrant"}, peers: {kind: "PeerAuthentication"},
	mappings: {kind: "ApplicationMapping"}, sources: {kind: "HTTPSource"},
}

// world is a cluster with Knative, and the instances of the controller there.
type world struct {
	t       *testing.T
	api     *kubetest.API
	knative *knative
	log     io.Writer // the controllers write here
	metrics *obs.Flow // nil: none

	applications []string // integration namespaces
}

// newWorld returns a cluster with all kinds but the absent ones. Knative runs until the test ends.
func newWorld(t *testing.T, absent ...schema.GroupVersionResource) *world {
	t.Helper()
	var kinds []kubetest.Kind
	for resource, of := range served {
		kinds = append(kinds, kubetest.Kind{GroupVersionResource: resource, Kind: of.kind, Status: true})
	}
	w := &world{t: t, api: kubetest.New(t, kinds...), log: t.Output(), applications: []string{"kyma-integration"}}
	for resource := range served {
		if !slices.Contains(absent, resource) {
			w.define(resource)
		}
	}
	w.knative = startKnative(t, w)
	return w
}

// define installs the definition of a kind.
func (w *world) define(resource schema.GroupVersionResource) {
	of := served[resource]
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": resource.GroupResource().String()},
		"spec": map[string]any{
			"group": resource.Group, "scope": "Namespaced", "names": map[string]any{"kind": of.kind, "plural": resource.Resource},
			"versions": []any{map[string]any{"name": resource.Version, "served": true}},
		},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}},
	}}
	if of.subscribable {
		o.SetLabels(map[string]string{"messaging.knative.dev/subscribable": "true"})
	}
	w.api.Add(definitions, o)
}

// undefine removes the definition of a kind, whose objects are gone.
func (w *world) undefine(resource schema.GroupVersionResource) {
	w.t.Helper()
	if err := w.api.Resource(definitions).Delete(w.t.Context(), resource.GroupResource().String(), metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// instance is a running controller.
type instance struct {
	*controller.Controller
	stop func() // kills it, and waits for its end
}

// start runs a controller until it is stopped or the test ends.
func (w *world) start(change ...func(*controller.Config)) *instance {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	config := controller.Config{Cluster: w.api.Cluster("waybill"), Applications: w.applications, Identity: "test", Metrics: w.metrics,
		Log: slog.New(slog.NewTextHandler(w.log, nil))}
	for _, f := range change {
		f(&config)
	}
	i := &instance{Controller: controller.New(config)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := i.Run(ctx); err != nil {
			w.t.Errorf("run: %v", err)
		}
	}()
	i.stop = func() {
		cancel()
		<-ended
	}
	w.t.Cleanup(i.stop)
	return i
}

// apply creates an object as a user does, or changes its spec, labels and annotations.
func (w *world) apply(resource schema.GroupVersionResource, text string) *unstructured.Unstructured {
	w.t.Helper()
	var o unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		w.t.Fatal(err)
	}
	o.SetAPIVersion(resource.GroupVersion().String())
	switch o.SetKind(served[resource].kind); resource {
	case clocks:
		o.SetKind("Clock")
	case services:
		o.SetKind("Service")
	}
	objects := w.api.Resource(resource).Namespace(o.GetNamespace())
	if _, err := objects.Get(w.t.Context(), o.GetName(), metav1.GetOptions{}); err == nil {
		return w.patch(resource, o.GetNamespace()+"/"+o.GetName(), text)
	}
	made, err := objects.Create(w.t.Context(), &o, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	if status, has := o.Object["status"]; has {
		w.setStatus(resource, made, status)
	}
	return made
}

func (w *world) setStatus(resource schema.GroupVersionResource, o *unstructured.Unstructured, status any) {
	w.t.Helper()
	text, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		w.t.Fatal(err)
	}
	_, err = w.api.Resource(resource).Namespace(o.GetNamespace()).Patch(w.t.Context(), o.GetName(), types.MergePatchType, text,
		metav1.PatchOptions{}, "status")
	if err != nil {
		w.t.Fatal(err)
	}
}

// patch changes an object by a merge patch in YAML.
func (w *world) patch(resource schema.GroupVersionResource, name, patch string) *unstructured.Unstructured {
	w.t.Helper()
	namespace, bare, _ := strings.Cut(name, "/")
	text, err := yaml.YAMLToJSON([]byte(patch))
	if err != nil {
		w.t.Fatal(err)
	}
	o, err := w.api.Resource(resource).Namespace(namespace).Patch(w.t.Context(), bare, types.MergePatchType, text, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) { // a controller may have been faster
		w.t.Fatal(err)
	}
	return o
}

func (w *world) delete(resource schema.GroupVersionResource, name string) {
	w.t.Helper()
	namespace, bare, _ := strings.Cut(name, "/")
	err := w.api.Resource(resource).Namespace(namespace).Delete(w.t.Context(), bare, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) { // a controller may have been faster
		w.t.Fatal(err)
	}
}

// get returns an object; nil: there is none.
func (w *world) get(resource schema.GroupVersionResource, name string) *unstructured.Unstructured {
	namespace, bare, _ := strings.Cut(name, "/")
	o, err := w.api.Resource(resource).Namespace(namespace).Get(context.Background(), bare, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return o
}

func (w *world) list(resource schema.GroupVersionResource) []unstructured.Unstructured {
	w.t.Helper()
	all, err := w.api.Resource(resource).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return all.Items
}

// conditions returns the conditions of a flow, each as "type status reason".
func (w *world) conditions(name string) (found []string) {
	w.t.Helper()
	o := w.get(flows, name)
	if o == nil {
		return nil
	}
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, one := range list {
		c, _ := one.(map[string]any)
		found = append(found, fmt.Sprintf("%s %s %s", c["type"], c["status"], c["reason"]))
	}
	return found
}

// want waits until nothing moves, and compares the conditions of a flow with some that it must have.
func (w *world) want(name string, want ...string) {
	w.t.Helper()
	rest()
	got := w.conditions(name)
	for _, one := range want {
		if !slices.Contains(got, one) {
			w.t.Errorf("%s has the conditions %q, want %q among them", name, got, one)
		}
	}
}

// rest waits until nothing moves.
func rest() {
	<-time.After(time.Second) // informers that begin wait a little
	synctest.Wait()
}

// resourceOf returns the resource of an object.
func resourceOf(o *unstructured.Unstructured) schema.GroupVersionResource {
	for resource, of := range served {
		if of.kind == o.GetKind() {
			return resource
		}
	}
	return schema.GroupVersionResource{}
}

// parse reads YAML.
func parse(t *testing.T, text string) (value any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	return value
}
