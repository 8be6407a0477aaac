package runner

import (
	"context"
	"fmt"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
)

// pods follows the pods of one run of a build, each kind of object by one list and watch. The latest object of a pod counts, not what
// happened before; of warnings about it, those that its state does not show.
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
	return &pods{resource: resource, events: events, selector: selector, known: map[string]*pod{}, warned: map[string][]string{}, changed: make(chan struct{})}
}

// run watches until ctx ends. A watch that is closed is opened again; one that is too old begins with a list.
func (p *pods) run(ctx context.Context) error {
	watched, err := follow(p.resource, metav1.ListOptions{LabelSelector: p.selector}, p.interrupted, cache.ResourceEventHandlerFuncs{
		AddFunc:    p.seen,
		UpdateFunc: func(_, now any) { p.seen(now) },
		DeleteFunc: p.gone,
	})
	if err != nil {
		return fmt.Errorf("watch the pods of the build: %w", err)
	}
	// Warnings only explain: an account that may not read them, or a watch that is interrupted, changes nothing.
	warnings, err := follow(p.events, metav1.ListOptions{FieldSelector: "involvedObject.kind=Pod,type=Warning"}, func(error) {}, cache.ResourceEventHandlerFuncs{
		AddFunc:    p.warn,
		UpdateFunc: func(_, now any) { p.warn(now) },
	})
	if err != nil {
		return fmt.Errorf("watch the events of the build: %w", err)
	}
	var both sync.WaitGroup
	both.Go(func() { warnings.RunWithContext(ctx) })
	watched.RunWithContext(ctx)
	both.Wait()
	return nil
}

// follow returns a list and watch of the objects that options select; interrupted is called with every error, and with nil once it works.
func follow(resource dynamic.ResourceInterface, selected metav1.ListOptions, interrupted func(error), handler cache.ResourceEventHandler) (cache.SharedIndexInformer, error) {
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector, o.FieldSelector = selected.LabelSelector, selected.FieldSelector
			return resource.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector, o.FieldSelector = selected.LabelSelector, selected.FieldSelector
			w, err := resource.Watch(ctx, o)
			interrupted(err)
			return w, err
		},
	}, &unstructured.Unstructured{}, 0, cache.Indexers{})
	err := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
		if ctx.Err() == nil {
			interrupted(err)
		}
	})
	if err != nil {
		return nil, err
	}
	_, err = informer.AddEventHandler(handler)
	return informer, err
}

// event is what the runner reads of an event.
type event struct {
	Reason         string `json:"reason"`
	Message        string `json:"message"`
	InvolvedObject struct {
		UID string `json:"uid"`
	} `json:"involvedObject"`
}

// maxWarnings bounds what is kept of one pod, and of how many pods: the namespace may have others.
const maxWarnings = 20

// warn keeps a warning about a pod.
func (p *pods) warn(o any) {
	one, ok := o.(*unstructured.Unstructured)
	if !ok {
		return
	}
	var e event
	if runtime.DefaultUnstructuredConverter.FromUnstructured(one.Object, &e) != nil {
		return // it is not an event
	}
	text := warningText(e)
	p.mutex.Lock()
	defer p.mutex.Unlock()
	uid := e.InvolvedObject.UID
	if text == "" || len(p.warned[uid]) >= maxWarnings || slices.Contains(p.warned[uid], text) || len(p.warned) >= maxWarnings*maxWarnings && p.warned[uid] == nil {
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

func (p *pods) seen(o any) {
	one, ok := o.(*unstructured.Unstructured)
	if !ok {
		return
	}
	var read pod
	if runtime.DefaultUnstructuredConverter.FromUnstructured(one.Object, &read) != nil {
		return // it is not a pod
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.known[read.Metadata.UID] = &read
	p.trouble = nil
	p.broadcast()
}

func (p *pods) gone(o any) {
	if late, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = late.Obj
	}
	one, ok := o.(*unstructured.Unstructured)
	if !ok {
		return
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.known[string(one.GetUID())] = nil
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
