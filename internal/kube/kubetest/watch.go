package kubetest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
)

// change is one change of an object.
type change struct {
	key
	version       int64
	before, after *unstructured.Unstructured // before is nil: it was made; after is nil: it was deleted
}

// watching is one open watch.
type watching struct {
	chosen
	results chan watch.Event
	begin   []watch.Event // sent first
	next    int           // index of the first change that it has not seen
	bounded *time.Timer   // nil: it does not end
	cut     chan struct{}
	removed chan struct{} // closed once the kind is not served any more

	stop     sync.Once
	stopping chan struct{}
}

func (w *watching) Stop() { w.stop.Do(func() { close(w.stopping) }) }

func (w *watching) ResultChan() <-chan watch.Event { return w.results }

func (c client) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	r := c.request("watch", fieldName(o), nil)
	return serve(ctx, c, r, func(kind Kind) (watch.Interface, error) { return c.watch(ctx, kind, o) })
}

// watch begins a watch. The caller holds the mutex.
func (c client) watch(ctx context.Context, kind Kind, o metav1.ListOptions) (watch.Interface, error) {
	selected, err := c.selector(kind, o)
	if err != nil {
		return nil, err
	}
	initial := o.SendInitialEvents != nil && *o.SendInitialEvents
	if o.SendInitialEvents != nil && o.ResourceVersionMatch != metav1.ResourceVersionMatchNotOlderThan {
		return nil, c.invalid(
			kind,
			"",
			field.Forbidden(
				field.NewPath("resourceVersionMatch"),
				"sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
			),
		)
	}
	w := &watching{
		chosen:   selected,
		results:  make(chan watch.Event),
		cut:      c.api.cut,
		removed:  c.api.kinds[c.resource].removed,
		stopping: make(chan struct{}),
	}
	if o.TimeoutSeconds != nil {
		w.bounded = time.AfterFunc(time.Duration(*o.TimeoutSeconds)*time.Second, w.Stop)
	}
	if version := o.ResourceVersion; version == "" || version == "0" || initial {
		c.api.begin(w, kind, initial && o.AllowWatchBookmarks)
	} else if err := c.api.resume(w, version); err != nil {
		return nil, err
	}
	c.api.watching.Go(func() { w.run(ctx) })
	return w, nil
}

// fieldName returns the name of the one object that is selected; "" for several.
func fieldName(o metav1.ListOptions) string {
	const prefix = "metadata.name="
	if len(o.FieldSelector) > len(prefix) && o.FieldSelector[:len(prefix)] == prefix {
		return o.FieldSelector[len(prefix):]
	}
	return ""
}

// begin has a watch begin with the objects as they are, and perhaps with a mark at their end. The
// caller holds the mutex.
func (a *API) begin(w *watching, kind Kind, marked bool) {
	for _, one := range a.sorted() {
		if w.has(one, a.objects[one]) {
			w.begin = append(w.begin, watch.Event{Type: watch.Added, Object: a.objects[one].DeepCopy()})
		}
	}
	w.next = len(a.history)
	if marked {
		mark := &unstructured.Unstructured{
			Object: map[string]any{"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind},
		}
		mark.SetResourceVersion(a.text())
		mark.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		w.begin = append(w.begin, watch.Event{Type: watch.Bookmark, Object: mark})
	}
}

// resume has a watch begin behind a version. One whose history is gone is the watch's first event,
// as the API server has it.
func (a *API) resume(w *watching, version string) error {
	after, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid resource version %q: %v", version, err))
	}
	if after < a.forgot {
		expired := apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", after, a.forgot))
		w.begin = []watch.Event{{Type: watch.Error, Object: &expired.ErrStatus}}
	}
	if w.next = slices.IndexFunc(a.history, func(c change) bool { return c.version > after }); w.next < 0 {
		w.next = len(a.history)
	}
	return nil
}

// run sends events until the watch ends.
func (w *watching) run(ctx context.Context) {
	defer close(w.results)
	defer func() {
		if w.bounded != nil {
			w.bounded.Stop()
		}
	}()
	for _, event := range w.begin {
		if !w.send(ctx, event) || event.Type == watch.Error {
			return
		}
	}
	for last := false; ; {
		events, more := w.news()
		for _, event := range events {
			if !w.send(ctx, event) {
				return
			}
		}
		if last {
			return
		}
		select {
		case <-more:
		case <-w.removed:
			last = true
		case <-w.stopping:
			return
		case <-w.cut:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (w *watching) send(ctx context.Context, event watch.Event) bool {
	select {
	case w.results <- event:
		return true
	case <-w.stopping:
	case <-w.cut:
	case <-ctx.Done():
	}
	return false
}

// news returns the changes since the last call, and a channel that is closed when more has.
func (w *watching) news() (events []watch.Event, more <-chan struct{}) {
	a := w.api
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for ; w.next < a.visible; w.next++ {
		if event, is := w.event(a.history[w.next]); is {
			events = append(events, event)
		}
	}
	return events, a.changed
}

// event returns what a change is for the watch: an object that the selectors begin to match is
// added, one that they cease to match is deleted.
func (w *watching) event(c change) (watch.Event, bool) {
	was, is := w.has(c.key, c.before), w.has(c.key, c.after)
	switch {
	case is && was:
		return watch.Event{Type: watch.Modified, Object: c.after.DeepCopy()}, true
	case is:
		return watch.Event{Type: watch.Added, Object: c.after.DeepCopy()}, true
	case was:
		gone := c.before.DeepCopy()
		gone.SetResourceVersion(strconv.FormatInt(c.version, 10))
		return watch.Event{Type: watch.Deleted, Object: gone}, true
	}
	return watch.Event{}, false
}
