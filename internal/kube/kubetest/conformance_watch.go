package kubetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

// patience bounds the wait for an event.
const patience = time.Minute

// follow opens a watch that ends with the test.
func (o objects) follow(t *testing.T, options metav1.ListOptions) watch.Interface {
	t.Helper()
	w, err := o.Watch(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return w
}

// version returns the version of a list.
func (o objects) version(t *testing.T) string {
	t.Helper()
	list, err := o.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.GetResourceVersion()
}

// next returns the next event but for bookmarks; false if the watch has ended.
func next(t *testing.T, w watch.Interface) (watch.Event, bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		select {
		case event, open := <-w.ResultChan():
			if open && event.Type == watch.Bookmark {
				continue
			}
			return event, open
		case <-ctx.Done():
			t.Fatalf("no event within %s", patience)
		}
	}
}

// wantEvents reads as many events, each given as TYPE NAME LABEL.
func wantEvents(t *testing.T, w watch.Interface, want ...string) {
	t.Helper()
	var got []string
	for range want {
		event, _ := next(t, w)
		object, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			t.Fatalf("after %q: %v", got, event)
		}
		got = append(got, fmt.Sprintf("%s %s %s", event.Type, object.GetName(), object.GetLabels()["test"]))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("got (+), want (-):\n%s", diff)
	}
}

func watchesContinueLists(t *testing.T, o objects) {
	o.make(t, o.named("before"))
	version := o.version(t)
	made := o.make(t, o.named("a"))
	o.change(t, made) // no change, so no event
	o.change(t, labeled(made, "1"))
	o.remove(t)
	o.make(t, o.named("a"))
	w := o.follow(t, metav1.ListOptions{ResourceVersion: version})
	wantEvents(t, w, "ADDED a ", "MODIFIED a 1", "DELETED a 1", "ADDED a ")
	event := o.make(t, o.named("b"))
	got, _ := next(t, w)
	if object := got.Object.(*unstructured.Unstructured); object.GetResourceVersion() != event.GetResourceVersion() ||
		object.GetUID() != event.GetUID() {
		t.Errorf("got %v, want %v", object, event)
	}
}

func watchesBeginWithWhatIsThere(t *testing.T, o objects) {
	o.make(t, labeled(o.named("a"), "1"))
	o.make(t, labeled(o.named("b"), "2"))
	w := o.follow(t, metav1.ListOptions{LabelSelector: "test=1"})
	wantEvents(t, w, "ADDED a 1")
	o.make(t, labeled(o.named("c"), "1"))
	wantEvents(t, w, "ADDED c 1")
}

func initialEventsHaveAnEnd(t *testing.T, o objects) {
	o.make(t, o.named("a"))
	yes := true
	options := metav1.ListOptions{
		SendInitialEvents:    &yes,
		AllowWatchBookmarks:  true,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}
	w := o.follow(t, options)
	wantEvents(t, w, "ADDED a ")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	select {
	case event := <-w.ResultChan():
		mark, ok := event.Object.(*unstructured.Unstructured)
		if !ok || event.Type != watch.Bookmark || mark.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true" ||
			mark.GetResourceVersion() == "" {
			t.Errorf("got %v", event)
		}
	case <-ctx.Done():
		t.Fatalf("no bookmark within %s", patience)
	}
	o.make(t, o.named("b"))
	wantEvents(t, w, "ADDED b ")
	options.ResourceVersionMatch = ""
	want(t, "without a match", apierrors.IsInvalid, func() error {
		_, err := o.Watch(t.Context(), options)
		return err
	})
}

// watchesSeeObjectsComeAndGo: an object that a selector no longer takes is deleted for the watch.
func watchesSeeObjectsComeAndGo(t *testing.T, o objects) {
	w := o.follow(t, metav1.ListOptions{ResourceVersion: o.version(t), LabelSelector: "test in (1, 2)"})
	made := o.make(t, o.named("a"))
	made = o.change(t, labeled(made, "1"))
	made = o.change(t, labeled(made, "2"))
	made = o.change(t, labeled(made, "3"))
	o.change(t, labeled(made, "1"))
	wantEvents(t, w, "ADDED a 1", "MODIFIED a 2")
	event, _ := next(t, w)
	if object := event.Object.(*unstructured.Unstructured); event.Type != watch.Deleted ||
		object.GetResourceVersion() != made.GetResourceVersion() {
		t.Errorf("got %v", event)
	}
	wantEvents(t, w, "ADDED a 1")
}

func watchesSeeOneNamespace(t *testing.T, o objects) {
	w := o.follow(t, metav1.ListOptions{ResourceVersion: o.version(t)})
	other := o
	other.ResourceInterface = o.cluster.Resource(o.kind.GroupVersionResource).Namespace("default")
	object := o.named("")
	object.SetGenerateName("other-")
	other.make(t, object)
	o.make(t, o.named("a"))
	wantEvents(t, w, "ADDED a ")
}

// oldVersionIsExpired: no Thing existed at the first version, so no history begins there.
func oldVersionIsExpired(t *testing.T, o objects) {
	event, _ := next(t, objectsOf(o.cluster, Thing).follow(t, metav1.ListOptions{ResourceVersion: "1"}))
	if event.Type != watch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(event.Object)) {
		t.Errorf("got %v", event)
	}
}

func watchEndsAtItsTime(t *testing.T, o objects) {
	second := int64(1)
	w := o.follow(t, metav1.ListOptions{ResourceVersion: o.version(t), TimeoutSeconds: &second})
	if event, open := next(t, w); open {
		t.Errorf("got %v", event)
	}
}
