// Package kubetest is an API of Kubernetes in memory, for tests of programs that follow and change objects. It
// behaves as the API server does: objects have a UID and a resource version, a stale change is a conflict, deletion
// waits for finalizers and for nodes, and watches begin at a version. Run is the suite that both pass.
//
// An API does the same as an API server at a bad moment when a test requires it: it refuses a request (Before), its
// answer is lost (After), its events come late (Hold) or again (Repeat), its watches end (Cut), it forgets changes
// (Forget), and kinds of custom resources come and go (Install, Remove).
package kubetest

import (
	"context"
	"strconv"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/waybill-dev/waybill/internal/kube"
)

// Kind describes a kind of object that an API serves.
type Kind struct {
	schema.GroupVersionResource
	Kind   string
	Status bool     // the status is a subresource, which requests for the whole object leave as it is
	Fields []string // paths of fields that selectors may name, beside the name and the namespace

	// Unconditional allows an update without a resource version, as most kinds of Kubernetes itself
	// do.
	Unconditional bool

	Cluster bool // the objects have no namespace

	// Answer returns the status of a created object, which is answered and not stored, as a review is; nil: it is stored.
	Answer func(spec map[string]any) map[string]any

	plain bool // the objects have no generation
}

// Pods is the resource whose objects nodes remove.
var Pods = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// Definitions is the resource of the definitions of kinds of custom resources.
var Definitions = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// kinds are those that every API serves.
var kinds = []Kind{
	{
		GroupVersionResource: Pods,
		Kind:                 "Pod",
		Status:               true,
		Fields:               []string{"spec.nodeName", "status.phase"},
		Unconditional:        true,
	},
	{
		GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"},
		Kind:                 "Secret",
		Fields:               []string{"type"},
		Unconditional:        true,
		plain:                true,
	},
	{GroupVersionResource: Definitions, Kind: "CustomResourceDefinition", Status: true, Cluster: true},
	{
		GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "events"},
		Kind:                 "Event",
		Fields: []string{
			"involvedObject.kind",
			"involvedObject.name",
			"involvedObject.uid",
			"reason",
			"type",
		},
		Unconditional: true,
		plain:         true,
	},
}

// Request is a request that an API received. Its verbs are those of roles.
type Request struct {
	Verb        string // create, update, delete, get, list, watch or patch
	Resource    string
	Subresource string // "": none
	Namespace   string
	Name        string // "": of a list or a watch
}

// API keeps objects. Make it with New or Open. Its methods may be called from several goroutines.
type API struct {
	mutex    sync.Mutex
	kinds    map[schema.GroupVersionResource]served
	before   []func(Request) error
	after    []func(Request) error
	version  int64 // version of the last change
	forgot   int64 // version up to which the history is gone
	objects  map[key]*unstructured.Unstructured
	history  []change
	held     bool
	visible  int           // changes that watches have been sent
	changed  chan struct{} // closed and replaced when there are more
	cut      chan struct{} // closed and replaced when watches end
	watching sync.WaitGroup
}

// served is a kind while it is served.
type served struct {
	Kind
	removed chan struct{} // closed at the end
}

var _ dynamic.Interface = (*API)(nil)

// key names one object.
type key struct {
	resource        schema.GroupVersionResource
	namespace, name string
}

// firstVersion is the version of an empty API.
const firstVersion = 100

// New returns an API as Open does, and closes it at the test's end.
func New(t testing.TB, more ...Kind) *API {
	a := Open(more...)
	t.Cleanup(a.Close)
	return a
}

// Open returns an API that serves pods, Secrets, events and further kinds. The caller closes it.
func Open(more ...Kind) *API {
	a := &API{
		kinds:   map[schema.GroupVersionResource]served{},
		version: firstVersion,
		forgot:  firstVersion,
		objects: map[key]*unstructured.Unstructured{},
		changed: make(chan struct{}),
		cut:     make(chan struct{}),
	}
	for _, kind := range append(more, kinds...) {
		a.kinds[kind.GroupVersionResource] = served{kind, make(chan struct{})}
	}
	return a
}

// Close ends all watches.
func (a *API) Close() {
	a.Cut()
	a.watching.Wait()
}

// Cluster returns a client of the API for one namespace. It has no address, so pods and their logs
// cannot be reached.
func (a *API) Cluster(namespace string) *kube.Cluster {
	return &kube.Cluster{Interface: a, Namespace: namespace}
}

// Resource returns a client for the objects of a kind.
func (a *API) Resource(resource schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return client{api: a, resource: resource}
}

// Add stores an object as it is, with its UID and its status, as if another client had made it.
func (a *API) Add(resource schema.GroupVersionResource, object *unstructured.Unstructured) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	object = object.DeepCopy()
	identify(object)
	a.store(key{resource, object.GetNamespace(), object.GetName()}, object)
}

// Before has f be called before each request. An error is the answer, and nothing is done then.
func (a *API) Before(f func(Request) error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.before = append(a.before, f)
}

// After has f be called after each request, before its answer. An error is the answer then, although the request was done: the
// answer was lost.
func (a *API) After(f func(Request) error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.after = append(a.after, f)
}

// Hold has watches receive no changes until Release. Reads have them at once.
func (a *API) Hold() { a.hold(true) }

// Release sends the changes that were held back.
func (a *API) Release() { a.hold(false) }

func (a *API) hold(held bool) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.held = held
	a.publish()
}

// Repeat sends every object again, as one that was modified.
func (a *API) Repeat() {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for at, object := range a.objects {
		a.history = append(a.history, change{key: at, version: a.version, before: object, after: object})
	}
	a.publish()
}

// Cut ends all watches. A client may begin again where it was.
func (a *API) Cut() {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	close(a.cut)
	a.cut = make(chan struct{})
}

// Forget ends all watches, and those that begin at a version up to now are refused, so that clients
// have to list again.
func (a *API) Forget() {
	a.mutex.Lock()
	a.version++ // what clients have seen is older
	a.forgot = a.version
	a.mutex.Unlock()
	a.Cut()
}

// receive calls the hooks before a request.
func (a *API) receive(ctx context.Context, r Request) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	a.mutex.Lock()
	before := a.before
	a.mutex.Unlock()
	return call(before, r)
}

// done calls the hooks after a request.
func (a *API) done(r Request) error {
	a.mutex.Lock()
	after := a.after
	a.mutex.Unlock()
	return call(after, r)
}

func call(hooks []func(Request) error, r Request) error {
	for _, f := range hooks {
		if err := f(r); err != nil {
			return err
		}
	}
	return nil
}

// store makes a new version of an object and records the change; a nil object is removed. The
// caller holds the mutex.
func (a *API) store(at key, object *unstructured.Unstructured) *unstructured.Unstructured {
	before := a.objects[at]
	a.version++
	if object == nil {
		delete(a.objects, at)
		a.history = append(a.history, change{key: at, version: a.version, before: before})
	} else {
		object.SetResourceVersion(a.text())
		a.objects[at] = object
		a.history = append(a.history, change{key: at, version: a.version, before: before, after: object})
	}
	a.publish()
	return object
}

// text returns the version of the last change.
func (a *API) text() string { return strconv.FormatInt(a.version, 10) }

// publish lets watches see the changes. The caller holds the mutex.
func (a *API) publish() {
	if a.held {
		return
	}
	a.visible = len(a.history)
	close(a.changed)
	a.changed = make(chan struct{})
}
