package eventflow_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/eventflow"
	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/kube/claim"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
	"github.com/waybill-dev/waybill/internal/services"
)

// The resources of the tests.
var (
	flows       = v1alpha1.Resource()
	activations = schema.GroupVersionResource{Group: "applicationconnector.kyma-project.io", Version: "v1alpha1", Resource: "eventactivations"}
)

func kinds() map[schema.GroupVersionResource]kubetest.Kind {
	return map[schema.GroupVersionResource]kubetest.Kind{
		flows:       {GroupVersionResource: flows, Kind: v1alpha1.Kind, Status: true},
		activations: {GroupVersionResource: activations, Kind: "EventActivation"},
	}
}

const (
	logID   = "a-log"
	hashOfA = "ca978112ca1bbdcafac231b39a23dc4d" // InstanceHash of a
	hashOfB = "3e23e8160039594a33894f6564e1b134"
)

// world is a cluster, with the handler.
type world struct {
	t       *testing.T
	api     *kubetest.API
	handler eventflow.Handler
	mu      sync.Mutex
	writes  []string // requests that change something, also those that fail
	refuse  func(kubetest.Request) error
	held    func() bool
}

// newWorld returns a cluster with all kinds but the absent ones.
func newWorld(t *testing.T, absent ...schema.GroupVersionResource) *world {
	t.Helper()
	installed := kinds()
	for _, one := range absent {
		delete(installed, one)
	}
	w := &world{t: t, api: kubetest.New(t, slices.Collect(maps.Values(installed))...)}
	w.handler = eventflow.Handler{Cluster: w.api.Cluster("waybill"), Log: logID}
	w.api.Before(func(r kubetest.Request) error {
		if w.refuse != nil {
			if err := w.refuse(r); err != nil {
				return err
			}
		}
		if r.Verb != "get" && r.Verb != "list" && r.Verb != "watch" {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.writes = append(w.writes, r.Verb+" "+r.Resource)
		}
		return nil
	})
	return w
}

// order returns an operation on the service instance a, in the namespace shop, by the first action.
func order(verb services.Verb) flow.Order {
	o := flow.Order{Verb: verb, Instance: "a", Namespace: "shop"}
	if verb != services.Deprovision {
		o.Spec = json.RawMessage(`{"source":{"application":"commerce"},"delivery":{"retry":3}}`)
	}
	return o
}

// activated returns the order with an EventActivation.
func activated(o flow.Order) flow.Order {
	o.Activation = &flow.Activation{Service: "orders", Application: "commerce", DisplayName: "Orders"}
	return o
}

func waiting(o flow.Order) flow.Order {
	o.WaitForReady = true
	return o
}

func on(instance string, o flow.Order) flow.Order {
	o.Instance = instance
	return o
}

// job is an action with an order.
type job struct {
	id    byte
	order flow.Order
}

// try makes one attempt with a number.
func (w *world) try(j job, number int) action.Outcome {
	w.t.Helper()
	parameters, err := json.Marshal(j.order)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.handler.Do(w.t.Context(), conductor.Attempt{Action: action.Action{ID: action.ID{j.id}, Parameters: parameters},
		Number: number, Held: w.held})
}

// finish makes attempts until one ends the action.
func (w *world) finish(j job) action.Outcome {
	w.t.Helper()
	for number := 1; ; number++ {
		o := w.try(j, number)
		if o.Kind != action.RetryAfter || number == 10 {
			return o
		}
	}
}

// objectsOf returns the objects of a resource in shop.
func (w *world) objectsOf(resource schema.GroupVersionResource) []unstructured.Unstructured {
	w.t.Helper()
	list, err := w.api.Resource(resource).Namespace("shop").List(w.t.Context(), metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return list.Items
}

// add stores an object in shop, as if another client had made it.
func (w *world) add(resource schema.GroupVersionResource, text string) {
	w.t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		w.t.Fatal(err)
	}
	kind := kinds()[resource].Kind
	if resource == channels {
		kind = "Channel"
	}
	object.SetGroupVersionKind(resource.GroupVersion().WithKind(kind))
	object.SetNamespace("shop")
	w.api.Add(resource, object)
}

// patch changes an object in shop by hand.
func (w *world) patch(resource schema.GroupVersionResource, name, text string, parts ...string) {
	w.t.Helper()
	patch, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		w.t.Fatal(err)
	}
	_, err = w.api.Resource(resource).Namespace("shop").Patch(w.t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}, parts...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.forget()
}

// remove deletes an object in shop by hand.
func (w *world) remove(resource schema.GroupVersionResource, name string) {
	w.t.Helper()
	if err := w.api.Resource(resource).Namespace("shop").Delete(w.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.forget()
}

// forget begins a new list of writes, and returns the former one.
func (w *world) forget() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	writes := w.writes
	w.writes = nil
	return writes
}

// state describes the objects in shop: a line for each.
func (w *world) state() (lines []string) {
	w.t.Helper()
	for _, o := range w.objectsOf(flows) {
		spec, err := json.Marshal(o.Object["spec"])
		if err != nil {
			w.t.Fatal(err)
		}
		words := []string{o.GetName(), string(spec), o.GetLabels()[flow.LabelInstance]}
		for _, name := range []string{flow.AnnotationAction, flow.AnnotationLog, flow.AnnotationID} {
			words = append(words, o.GetAnnotations()[name])
		}
		if o.GetDeletionTimestamp() != nil {
			words = append(words, "being deleted")
		}
		lines = append(lines, strings.Join(words, " "))
	}
	for _, o := range w.objectsOf(activations) {
		words := []string{o.GetName(), "foreign"}
		if claim.Managed(&o) {
			words[1] = "managed"
		}
		for _, c := range claim.Of(&o) {
			words = append(words, fmt.Sprintf("%s=%s/%s", c.UID, c.Namespace, c.Name))
		}
		lines = append(lines, strings.Join(words, " "))
	}
	return lines
}

// status sets the conditions of the flow of service instance "a", each "type status message generation".
func (w *world) status(conditions ...string) {
	w.t.Helper()
	var list []string
	for _, one := range conditions {
		f := strings.SplitN(one, " ", 4)
		list = append(list, fmt.Sprintf("{type: %s, status: %q, reason: Because, observedGeneration: %s, message: %q}", f[0], f[1], f[2], f[3]))
	}
	w.patch(flows, "event-flow-a", fmt.Sprintf(`{status: {sinkUri: "http://broker/shop/default", conditions: [%s]}}`,
		strings.Join(list, ", ")), "status")
}

// refusal returns an answer of an API server.
func refusal(code int32, reason metav1.StatusReason, message string, causes ...metav1.StatusCause) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message,
		Details: &metav1.StatusDetails{Causes: causes}}}
}

// The answers of an API server to a creation in a namespace that does not exist or is being deleted, and to an account without the right.
var (
	errNoNamespace = apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "shop")
	errTerminating = refusal(http.StatusForbidden, metav1.StatusReasonForbidden, `eventflows.flow.waybill.dev "event-flow-a" is forbidden: `+
		`unable to create new content in namespace shop because it is being terminated`, metav1.StatusCause{Type: "NamespaceTerminating"})
	errNoRight = refusal(http.StatusForbidden, metav1.StatusReasonForbidden,
		`eventflows.flow.waybill.dev is forbidden: User "waybill" cannot create resource "eventflows"`)
	errSchema = refusal(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid,
		`EventFlow "event-flow-a" is invalid: spec.sink.uri: Invalid value: "ftp://x/?access_token=secret": uri: want an http or https URL`)
)

// refusing has requests with a verb for a resource be refused.
func refusing(verb string, resource schema.GroupVersionResource, err error) func(kubetest.Request) error {
	return func(r kubetest.Request) error {
		if r.Verb == verb && r.Resource == resource.Resource {
			return err
		}
		return nil
	}
}
