package runner

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
)

func podsResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "pods"}
}

func secretsResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
}

// pods follows the pods of one run of a build by one list and watch. The latest object of a pod counts, not what happened before.
type pods struct {
	resource dynamic.ResourceInterface
	selector string

	mutex   sync.Mutex
	known   map[string]*pod // by UID; nil: it is gone
	trouble error           // why watching was interrupted; nil: it works
	changed chan struct{}   // closed and replaced at every change
}

func newPods(resource dynamic.ResourceInterface, selector string) *pods {
	return &pods{resource: resource, selector: selector, known: map[string]*pod{}, changed: make(chan struct{})}
}

// run watches until ctx ends. A watch that is closed is opened again; one that is too old begins with a list.
func (p *pods) run(ctx context.Context) error {
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = p.selector
			return p.resource.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = p.selector
			w, err := p.resource.Watch(ctx, o)
			p.interrupted(err)
			return w, err
		},
	}, &unstructured.Unstructured{}, 0, cache.Indexers{})
	err := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
		if ctx.Err() == nil {
			p.interrupted(err)
		}
	})
	if err != nil {
		return fmt.Errorf("watch the pods of the build: %w", err)
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    p.seen,
		UpdateFunc: func(_, now any) { p.seen(now) },
		DeleteFunc: p.gone,
	})
	if err != nil {
		return fmt.Errorf("watch the pods of the build: %w", err)
	}
	informer.RunWithContext(ctx)
	return nil
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
	pod     *pod // nil: it is gone, or not seen yet
	gone    bool
	trouble error
	changed <-chan struct{} // closed when looking again is worth it
}

func (p *pods) look(uid string) observed {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	one, seen := p.known[uid]
	return observed{pod: one, gone: seen && one == nil, trouble: p.trouble, changed: p.changed}
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
