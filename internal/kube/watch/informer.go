// Package watch follows objects of Kubernetes. An Informer lists and watches them and keeps what a decoder makes of
// each, a Queue hands the names of objects to workers, and a Memory keeps the knowledge about each object. The latest
// state of an object counts, not earlier ones: events may be late, repeated or missed.
package watch

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
)

// Config configures an Informer, which calls Changed and Gone one at a time. What is nil is not
// called.
type Config[T metav1.Object] struct {
	Objects dynamic.ResourceInterface
	Labels  string        // selector; "": all objects
	Fields  string        // selector; "": all objects
	Resync  time.Duration // interval at which all objects are reported again; 0: never

	// Decode makes the kept part of an object, at least its name, namespace, UID and resource version. It may change
	// the object.
	Decode  func(*unstructured.Unstructured) T
	Changed func(T) // receives an object that is new, that has changed, or that is reported again
	// Updated receives the earlier and the present state of an object that has changed or is reported again. Default: Changed
	// receives the present one.
	Updated func(was, now T)
	Gone    func(T) // receives an object that was deleted, as it was seen last

	Opened      func(error) // receives the result of each request to watch
	Interrupted func(error) // receives why following ended; it begins again
}

// Informer follows objects. Make it with New, run it once.
type Informer[T metav1.Object] struct {
	informer cache.SharedIndexInformer
	reports  cache.ResourceEventHandlerRegistration
}

// New returns an informer.
func New[T metav1.Object](c Config[T]) (*Informer[T], error) {
	informer := cache.NewSharedIndexInformer(c.source(), &unstructured.Unstructured{}, c.Resync,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	if err := informer.SetTransform(c.transform); err != nil {
		return nil, fmt.Errorf("follow objects: %w", err)
	}
	err := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
		if ctx.Err() == nil && c.Interrupted != nil {
			c.Interrupted(err)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("follow objects: %w", err)
	}
	reports, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(now any) { report(c.Changed, now) },
		UpdateFunc: c.update,
		DeleteFunc: func(last any) { report(c.Gone, last) },
	})
	if err != nil {
		return nil, fmt.Errorf("follow objects: %w", err)
	}
	return &Informer[T]{informer, reports}, nil
}

// Must returns an informer that New has made, and panics if it was refused: none is before it has run.
func Must[T metav1.Object](informer *Informer[T], err error) *Informer[T] {
	if err != nil {
		panic(err)
	}
	return informer
}

// source lists and watches the selected objects.
func (c Config[T]) source() *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector, o.FieldSelector = c.Labels, c.Fields
			return c.Objects.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector, o.FieldSelector = c.Labels, c.Fields
			w, err := c.Objects.Watch(ctx, o)
			if c.Opened != nil {
				c.Opened(err)
			}
			return w, err
		},
	}
}

// transform decodes an object before it is kept. One may come twice.
func (c Config[T]) transform(object any) (any, error) {
	if whole, ok := object.(*unstructured.Unstructured); ok {
		return c.Decode(whole), nil
	}
	return object, nil
}

// update reports a change, or an object that is reported again.
func (c Config[T]) update(was, now any) {
	before, isKept := was.(T)
	after, areKept := now.(T)
	if c.Updated != nil && isKept && areKept {
		c.Updated(before, after)
		return
	}
	report(c.Changed, now)
}

// report calls f with the kept part of an object, also of one whose deletion was missed.
func report[T metav1.Object](f func(T), object any) {
	if late, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = late.Obj
	}
	if kept, ok := object.(T); ok && f != nil {
		f(kept)
	}
}

// Run follows the objects until ctx ends.
func (i *Informer[T]) Run(ctx context.Context) { i.informer.RunWithContext(ctx) }

// Synced reports whether all objects have been seen and reported once.
func (i *Informer[T]) Synced() bool { return i.reports.HasSynced() }

// AwaitSync waits until all objects have been seen and reported once. It returns false if ctx ends first.
func (i *Informer[T]) AwaitSync(ctx context.Context) bool {
	return cache.WaitFor(ctx, "", i.reports.HasSyncedChecker())
}

// Get returns the kept part of an object; false if it does not exist, or is not selected.
func (i *Informer[T]) Get(namespace, name string) (kept T, found bool) {
	object, found, err := i.informer.GetStore().GetByKey(namespace + "/" + name)
	if err != nil || !found {
		return kept, false
	}
	kept, found = object.(T)
	return kept, found
}

// List returns the kept part of all objects, in any order.
func (i *Informer[T]) List() []T { return kept[T](i.informer.GetStore().List()) }

// InNamespace returns the kept part of the objects in a namespace, in any order.
func (i *Informer[T]) InNamespace(namespace string) []T {
	found, err := i.informer.GetIndexer().ByIndex(cache.NamespaceIndex, namespace)
	if err != nil { // the index is always there
		return nil
	}
	return kept[T](found)
}

func kept[T any](objects []any) []T {
	var all []T
	for _, object := range objects {
		if one, ok := object.(T); ok {
			all = append(all, one)
		}
	}
	return all
}
