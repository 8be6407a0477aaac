package claim_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/kube/claim"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
)

// brokers are the shared objects of the tests; there is one, named default.
var brokers = kubetest.Kind{
	GroupVersionResource: schema.GroupVersionResource{Group: "eventing.knative.dev", Version: "v1", Resource: "brokers"},
	Kind:                 "Broker",
	Status:               true,
}

const (
	name      = "default"
	finalizer = "knative.dev/test"
)

// broker returns an object without marks.
func broker() *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(brokers.GroupVersion().WithKind(brokers.Kind))
	object.SetName(name)
	return object
}

// user returns the claim of a flow, whose UID is its name.
func user(uid string, policy v1alpha1.DeletionPolicy) claim.Claim {
	return claim.Claim{UID: types.UID(uid), Policy: policy, Namespace: "shop", Name: uid}
}

// world has users that share an object, and records their requests and results.
type world struct {
	t       *testing.T
	api     *kubetest.API
	objects claim.Objects
	gone    map[types.UID]bool // flows that do not exist any more
	actor   string
	log     []string
	stops   []stop
	lost    string // verb of the request whose answer is lost; "": none
}

// stop is code that runs once, before the next request of an actor with a verb.
type stop struct {
	actor, verb string
	do          func()
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, api: kubetest.New(t, brokers), gone: map[types.UID]bool{}}
	w.objects = claim.Objects{ResourceInterface: w.raw(), Live: func(_ context.Context, c claim.Claim) (bool, error) {
		return !w.gone[c.UID], nil
	}}
	w.api.Before(func(r kubetest.Request) error {
		for i, s := range w.stops {
			if s.actor == w.actor && s.verb == r.Verb {
				w.stops = append(w.stops[:i:i], w.stops[i+1:]...)
				actor := w.actor
				s.do()
				w.actor = actor
				break
			}
		}
		if w.actor != "" {
			w.log = append(w.log, w.actor+" "+r.Verb)
		}
		return nil
	})
	w.api.After(func(r kubetest.Request) error {
		if w.actor != "" && r.Verb == w.lost {
			w.lost = ""
			return fmt.Errorf("the answer to %s was lost", r.Verb)
		}
		return nil
	})
	return w
}

func (w *world) raw() dynamic.ResourceInterface {
	return w.api.Resource(brokers.GroupVersionResource).Namespace("shop")
}

// before has do run before the next request of an actor with a verb.
func (w *world) before(actor, verb string, do func()) {
	w.stops = append(w.stops, stop{actor, verb, do})
}

// as runs do as an actor, and records the result.
func (w *world) as(actor string, do func() (string, error)) string {
	w.t.Helper()
	outer := w.actor
	w.actor = actor
	result, err := do()
	w.actor = outer
	if err != nil {
		result = "error"
	}
	w.log = append(w.log, actor+": "+result)
	return result
}

// note records an event outside of the actors, and runs it.
func (w *world) note(text string, do func()) {
	w.t.Helper()
	outer := w.actor
	w.actor = ""
	w.log = append(w.log, "("+text+")")
	do()
	w.actor = outer
}

// create creates the object with a first claim.
func (w *world) create(c claim.Claim) {
	w.as(string(c.UID), func() (string, error) {
		object := broker()
		claim.Mark(object, c)
		_, err := w.objects.Create(w.t.Context(), object, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return "exists", nil
		}
		return "created", err
	})
}

// add claims the object with a UID.
func (w *world) add(c claim.Claim, uid types.UID) claim.Added {
	var added claim.Added
	w.as(string(c.UID), func() (_ string, err error) {
		added, err = w.objects.Add(w.t.Context(), name, uid, c)
		return string(added.Outcome), err
	})
	return added
}

func (w *world) release(c claim.Claim, uid types.UID) {
	w.as(string(c.UID), func() (string, error) {
		released, err := w.objects.Release(w.t.Context(), name, uid, c.UID)
		return string(released), err
	})
}

func (w *world) sweep() {
	w.as("sweeper", func() (string, error) {
		released, err := w.objects.Sweep(w.t.Context(), name, "")
		return string(released), err
	})
}

// found returns the object; nil if it does not exist.
func (w *world) found() *unstructured.Unstructured {
	w.t.Helper()
	outer := w.actor
	w.actor = ""
	defer func() { w.actor = outer }()
	object, err := w.raw().Get(w.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return object
}

func (w *world) uid() types.UID { return w.found().GetUID() }

// edit changes the object by hand.
func (w *world) edit(change func(*unstructured.Unstructured)) {
	w.t.Helper()
	object := w.found()
	change(object)
	outer := w.actor
	w.actor = ""
	defer func() { w.actor = outer }()
	if _, err := w.raw().Update(w.t.Context(), object, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// remove deletes the object by hand.
func (w *world) remove() {
	w.t.Helper()
	outer := w.actor
	w.actor = ""
	defer func() { w.actor = outer }()
	if err := w.raw().Delete(w.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// hold gives the object a finalizer, unhold removes it.
func (w *world) hold() {
	w.edit(func(o *unstructured.Unstructured) { o.SetFinalizers([]string{finalizer}) })
}

func (w *world) unhold() { w.edit(func(o *unstructured.Unstructured) { o.SetFinalizers(nil) }) }

// setStatus writes the object's status, as its controller does.
func (w *world) setStatus(value int64) {
	w.t.Helper()
	object := w.found()
	object.Object["status"] = map[string]any{"value": value}
	outer := w.actor
	w.actor = ""
	defer func() { w.actor = outer }()
	if _, err := w.raw().UpdateStatus(w.t.Context(), object, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// state describes the object: its kind, whether it is being deleted, and its claims.
func (w *world) state() string {
	w.t.Helper()
	object := w.found()
	if object == nil {
		return "absent"
	}
	words := []string{"foreign"}
	if claim.Managed(object) {
		words[0] = "managed"
	}
	if object.GetDeletionTimestamp() != nil {
		words = append(words, "terminating")
	}
	for _, c := range claim.Of(object) {
		words = append(words, string(c.UID))
	}
	return strings.Join(words, " ")
}

// want compares the requests and results since the last call, and the object's state, with a transcript.
func (w *world) want(transcript ...string) {
	w.t.Helper()
	if diff := cmp.Diff(transcript, append(w.log, "= "+w.state())); diff != "" {
		w.t.Errorf("transcript differs (-want +got):\n%s", diff)
	}
	w.log = nil
}
