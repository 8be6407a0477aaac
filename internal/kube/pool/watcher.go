package pool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/waybill-dev/waybill/internal/loop"
)

// scope selects the objects of a kind that one watch follows.
type scope struct {
	namespace string // "": all
	name      string // "": all
}

func (s scope) covers(at types.NamespacedName) bool {
	return (s.namespace == "" || s.namespace == at.Namespace) && (s.name == "" || s.name == at.Name)
}

// maxListRetry bounds the delay after failures of a watch. The reflector's own loop is not used: its handler of errors
// has one lock for the whole process.
const maxListRetry = 30 * time.Second

// watchSlack is the time that a server has to end a watch after its limit.
const watchSlack = 30 * time.Second

// watcher follows the objects of one scope of a kind. It is the store of a reflector. The pool's mutex guards its
// fields.
type watcher struct {
	kind   *kind
	scope  scope
	in     resource
	cancel context.CancelFunc

	stopped   bool
	replaced  bool      // another one reads the same objects
	synced    bool      // the objects have been read, and are followed
	forbidden bool      // the last request was refused with 403
	failing   time.Time // since when requests fail; zero: they do not
	broken    bool      // they have failed for so long that the objects count as unknown
	message   string    // the last failure
	unneeded  time.Time // since when no demand needs it; zero: one does
}

// decoded is the kept part of an object on its way to the kind.
type decoded struct {
	metav1.ObjectMeta
	kept seen
}

// run follows the objects until ctx ends.
func (w *watcher) run(ctx context.Context, c *connection) {
	s := source{w, c, c.objects.Resource(w.in.GroupVersionResource).Namespace(w.scope.namespace)}
	reflector := cache.NewReflectorWithOptions(s, nil, w, cache.ReflectorOptions{Name: w.in.String()})
	ctx = klog.NewContext(ctx, logr.Discard())
	delays := loop.Backoff{First: firstRetry, Most: maxListRetry}
	for {
		began := time.Now()
		_ = reflector.ListAndWatchWithContext(ctx) // the source has reported errors
		if time.Since(began) >= steady {
			delays.Reset()
		}
		if !loop.Pause(ctx, delays.Next()) {
			return
		}
	}
}

// source lists and watches the objects of a watcher, and reports failures to it.
type source struct {
	watcher    *watcher
	connection *connection
	objects    dynamic.ResourceInterface
}

func (s source) narrow(o *metav1.ListOptions) {
	if name := s.watcher.scope.name; name != "" {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", name).String()
	}
}

// List is ListWithContext for callers without a context, of which there are none.
func (s source) List(o metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), o)
}

// Watch is WatchWithContext for callers without a context, of which there are none.
func (s source) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), o)
}

func (s source) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	s.narrow(&o)
	limited, cancel := context.WithTimeoutCause(ctx, requestLimit, fmt.Errorf("no answer within %s", requestLimit))
	defer cancel()
	list, err := s.objects.List(limited, o)
	if err != nil && ctx.Err() == nil {
		s.watcher.failed(err)
	}
	return list, err
}

func (s source) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	s.narrow(&o)
	limit := watchSlack
	if o.TimeoutSeconds != nil {
		limit += time.Duration(*o.TimeoutSeconds) * time.Second
	}
	bounded, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the watch did not end within %s", limit))
	events, err := s.connection.watch(bounded, s.watcher, o)
	if err == nil {
		if o.SendInitialEvents == nil { // it continues from the known objects
			s.watcher.kind.heard(s.watcher)
		}
		return limited{events, cancel}, nil
	}
	cancel()
	// A server that refuses to list by a watch gets a request for a list next.
	var refused apierrors.APIStatus
	if lists := o.SendInitialEvents != nil; ctx.Err() == nil && (!lists || !errors.As(err, &refused)) {
		s.watcher.failed(err)
	}
	return nil, err
}

// limited is a watch with a limit of time, which ends with it.
type limited struct {
	watch.Interface
	cancel context.CancelFunc
}

func (l limited) Stop() {
	l.cancel()
	l.Interface.Stop()
}

// Transformer has objects decoded one by one while they are read.
func (w *watcher) Transformer() cache.TransformFunc {
	return func(object any) (any, error) { return w.decode(object), nil }
}

// decode returns the kept part of an object; nil if it is none.
func (w *watcher) decode(object any) *decoded {
	switch object := object.(type) {
	case *decoded:
		return object
	case *unstructured.Unstructured:
		at := metav1.ObjectMeta{
			Namespace:       object.GetNamespace(),
			Name:            object.GetName(),
			ResourceVersion: object.GetResourceVersion(),
		}
		return &decoded{at, w.kind.decode(object)}
	}
	return nil
}

// Replace receives all objects of the scope.
func (w *watcher) Replace(all []any, _ string) error {
	list := make([]*decoded, 0, len(all))
	for _, one := range all {
		if object := w.decode(one); object != nil {
			list = append(list, object)
		}
	}
	w.kind.replace(w, list)
	return nil
}

// Add receives an object that is new.
func (w *watcher) Add(object any) error {
	if object := w.decode(object); object != nil {
		w.kind.set(w, object)
	}
	return nil
}

// Update receives an object that has changed.
func (w *watcher) Update(object any) error { return w.Add(object) }

// Delete receives an object that is gone.
func (w *watcher) Delete(object any) error {
	if gone, ok := object.(metav1.Object); ok {
		w.kind.remove(w, types.NamespacedName{Namespace: gone.GetNamespace(), Name: gone.GetName()})
	}
	return nil
}

// Bookmark receives the news that all events were sent.
func (w *watcher) Bookmark(string) error {
	w.kind.heard(w)
	return nil
}

// Resync does nothing: the objects are not reported again.
func (w *watcher) Resync() error { return nil }

// failed receives why following ended; it begins again after a while.
func (w *watcher) failed(err error) {
	if apierrors.IsNotFound(err) {
		w.kind.unserved(w)
		return
	}
	w.kind.failed(w, err)
}
