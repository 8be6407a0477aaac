package runner

import (
	"context"
	"fmt"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/waybill-dev/waybill/internal/kube/watch"
)

// pods follows the pods of one run of a build, each kind of object by one list and watch. The latest object of a pod
// counts, not earlier ones; of warnings about it, those that its state does not show.
type pods struct {
	resource dynamic.ResourceInterface
	events   dynamic.ResourceInterface
	selector string

	mutex   sync.Mutex
	known   map[string]*pod     // by UID; nil: it is gone
	warned  map[string][]string // by UID of the pod
	trouble error               // why watching was interrupted; nil: it works
	changed chan struct{}       // closed and replaced at every change
}

func newPods(resource, events dynamic.ResourceInterface, selector string) *pods {
	return &pods{resource: resource, events: events, selector: selector, known: map[string]*pod{},
		warned: map[string][]string{}, changed: make(chan struct{})}
}

// run watches until ctx ends. A watch that is closed is opened again; one that is too old begins with a list.
func (p *pods) run(ctx context.Context) error {
	watched, err := watch.New(watch.Config[*pod]{Objects: p.resource, Labels: p.selector, Decode: readPod,
		Changed: p.seen, Gone: p.gone, Opened: p.interrupted, Interrupted: p.interrupted})
	if err != nil {
		return fmt.Errorf("watch the pods of the build: %w", err)
	}
	// Warnings only explain: an account that may not read them, or a watch that is interrupted, changes nothing.
	warnings, err := watch.New(watch.Config[*event]{Objects: p.events, Fields: "involvedObject.kind=Pod,type=Warning",
		Decode: readEvent, Changed: p.warn})
	if err != nil {
		return fmt.Errorf("watch the events of the build: %w", err)
	}
	var both sync.WaitGroup
	both.Go(func() { warnings.Run(ctx) })
	watched.Run(ctx)
	both.Wait()
	return nil
}

// event has the fields of an event that the runner reads.
type event struct {
	metav1.ObjectMeta `json:"metadata"`

	Reason         string `json:"reason"`
	Message        string `json:"message"`
	InvolvedObject struct {
		UID string `json:"uid"`
	} `json:"involvedObject"`
}

// readEvent reads the kept part of an event.
func readEvent(one *unstructured.Unstructured) *event {
	e := read[event](one)
	e.ObjectMeta = identity(one)
	return &e
}

// readPod reads the kept part of a pod.
func readPod(one *unstructured.Unstructured) *pod {
	p := read[pod](one)
	p.ObjectMeta = identity(one)
	return &p
}

// read converts an object; one of another form is empty.
func read[T any](one *unstructured.Unstructured) (into T) {
	one.SetManagedFields(nil) // they are large
	if runtime.DefaultUnstructuredConverter.FromUnstructured(one.Object, &into) != nil {
		var empty T
		return empty
	}
	return into
}

// identity returns the kept part of an object's metadata.
func identity(one *unstructured.Unstructured) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: one.GetName(), Namespace: one.GetNamespace(), UID: one.GetUID(), ResourceVersion: one.GetResourceVersion(),
		DeletionTimestamp: one.GetDeletionTimestamp()}
}

// maxWarnings bounds the kept part of one pod, and of how many pods: the namespace may have others.
const maxWarnings = 20

// warn keeps a warning about a pod.
func (p *pods) warn(e *event) {
	text := warningText(*e)
	p.mutex.Lock()
	defer p.mutex.Unlock()
	uid := e.InvolvedObject.UID
	if text == "" || len(p.warned[uid]) >= maxWarnings || slices.Contains(p.warned[uid], text) ||
		len(p.warned) >= maxWarnings*maxWarnings && p.warned[uid] == nil {
		return
	}
	p.warned[uid] = append(p.warned[uid], text)
	p.broadcast()
}

// interrupted records whether watching works.
func (p *pods) interrupted(err error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.trouble = err
	p.broadcast()
}

func (p *pods) broadcast() {
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *pods) seen(one *pod) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.known[string(one.UID)] = one
	p.trouble = nil
	p.broadcast()
}

func (p *pods) gone(one *pod) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.known[string(one.UID)] = nil
	p.broadcast()
}

// observed is one look at a pod.
type observed struct {
	pod      *pod // nil: it is gone, or not seen yet
	gone     bool
	warnings []string
	trouble  error
	changed  <-chan struct{} // closed when looking again is worth it
}

func (p *pods) look(uid string) observed {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	one, seen := p.known[uid]
	return observed{pod: one, gone: seen && one == nil, warnings: p.warned[uid], trouble: p.trouble, changed: p.changed}
}

// await waits until done holds for a pod. It returns false if the pod is gone before, and an error if ctx ends.
func (p *pods) await(ctx context.Context, uid string, done func(*pod) bool) (bool, error) {
	for {
		now := p.look(uid)
		switch {
		case now.gone:
			return false, nil
		case now.pod != nil && done(now.pod):
			return true, nil
		}
		select {
		case <-now.changed:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}
