package watch_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
	"github.com/waybill-dev/waybill/internal/kube/watch"
)

// summary is the part of a Secret that the tests keep.
type summary struct {
	metav1.ObjectMeta
	state string
}

func decode(whole *unstructured.Unstructured) *summary {
	kept := &summary{state: whole.GetLabels()["state"]}
	kept.Name, kept.Namespace, kept.UID, kept.ResourceVersion = whole.GetName(), whole.GetNamespace(), whole.GetUID(),
		whole.GetResourceVersion()
	return kept
}

// follower notes what an informer reports.
type follower struct {
	*watch.Informer[*summary]
	api     *kubetest.API
	cluster *kube.Cluster
	reports chan string
}

// newFollower follows the Secrets of a namespace that have a state.
func newFollower(t *testing.T, resync time.Duration) *follower {
	t.Helper()
	f := &follower{api: kubetest.New(t), reports: make(chan string, 100)}
	f.cluster = f.api.Cluster("test")
	note := func(what string) func(*summary) {
		return func(kept *summary) { f.reports <- fmt.Sprintf("%s %s %s", what, kept.Name, kept.state) }
	}
	var err error
	f.Informer, err = watch.New(
		watch.Config[*summary]{
			Objects: f.cluster.Secrets(),
			Labels:  "state",
			Fields:  "metadata.name!=hidden",
			Resync:  resync,
			Decode:  decode,
			Changed: note("changed"),
			Gone:    note("gone"),
			Opened: func(err error) {
				if err != nil {
					f.reports <- "not opened: " + err.Error()
				}
			},
			Interrupted: func(err error) { f.reports <- "interrupted: " + err.Error() },
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// run follows until the test ends.
func (f *follower) run(t *testing.T) { go f.Run(t.Context()) }

// want waits for as many reports, in any order.
func (f *follower) want(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for range want {
		got = append(got, <-f.reports)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("got (+), want (-):\n%s", diff)
	}
}

// set makes a Secret, or changes its state.
func (f *follower) set(t *testing.T, name, state string) {
	t.Helper()
	object := &unstructured.Unstructured{
		Object: map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name}},
	}
	object.SetLabels(map[string]string{"state": state})
	_, err := f.cluster.Secrets().Create(t.Context(), object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = f.cluster.Secrets().Update(t.Context(), object, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (f *follower) remove(t *testing.T, name string) {
	t.Helper()
	if err := f.cluster.Secrets().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestObjectsAreFollowed(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		f := newFollower(t, 0)
		f.set(t, "a", "1")
		f.set(t, "hidden", "1")
		f.run(t)
		f.want(t, "changed a 1")
		f.set(t, "b", "1")
		f.want(t, "changed b 1")
		f.set(t, "a", "2")
		f.want(t, "changed a 2")
		<-time.After(time.Minute) // the end of the list is noticed a little later
		if kept, found := f.Get("test", "a"); !found || kept.state != "2" || len(f.List()) != 2 || !f.Synced() {
			t.Errorf("found %t, state %q of %d, synced %t", found, kept.state, len(f.List()), f.Synced())
		}
		f.remove(t, "a")
		f.want(t, "gone a 2")
		if _, found := f.Get("test", "a"); found {
			t.Error("a deleted object is kept")
		}
	})
}

// TestLateEventsAreTheLatestState: a change while events were held back is reported in order.
func TestLateEventsAreTheLatestState(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		f := newFollower(t, 0)
		f.run(t)
		f.set(t, "a", "1")
		f.want(t, "changed a 1")
		f.api.Hold()
		f.set(t, "a", "2")
		f.remove(t, "a")
		f.set(t, "a", "3")
		if kept, found := f.Get("test", "a"); !found || kept.state != "1" {
			t.Errorf("kept %v", kept)
		}
		f.api.Release()
		f.want(t, "changed a 2", "gone a 2", "changed a 3")
	})
}

func TestRepeatedEventsAreReported(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		f := newFollower(t, 0)
		f.set(t, "a", "1")
		f.run(t)
		f.want(t, "changed a 1")
		f.api.Repeat()
		f.want(t, "changed a 1")
	})
}

// TestMissedDeletionsAreReported: the watch was away for so long that all is listed again.
func TestMissedDeletionsAreReported(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		f := newFollower(t, 0)
		f.set(t, "a", "1")
		f.set(t, "b", "1")
		f.run(t)
		f.want(t, "changed a 1", "changed b 1")
		f.api.Hold()
		f.remove(t, "a")
		f.set(t, "b", "2")
		f.api.Forget()
		f.want(t, "gone a 1", "changed b 2")
	})
}

func TestFailuresAreReported(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		f := newFollower(t, 0)
		failures := map[string]int{"watch": 1, "list": 1}
		f.api.Before(func(r kubetest.Request) error {
			if failures[r.Verb]--; failures[r.Verb] >= 0 {
				return errors.New("no " + r.Verb + " now")
			}
			return nil
		})
		f.set(t, "a", "1")
		f.run(t)
		for got := ""; got != "changed a 1"; {
			switch got = <-f.reports; got {
			case "not opened: no watch now",
				"interrupted: no watch now",
				"interrupted: failed to list *unstructured.Unstructured: no list now",
				"changed a 1":
			default:
				t.Errorf("got %q", got)
			}
		}
		if failures["watch"] >= 0 {
			t.Error("the test shows nothing")
		}
	})
}

// TestObjectsAreReportedAgain at each resync.
func TestObjectsAreReportedAgain(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		f := newFollower(t, time.Hour)
		f.set(t, "a", "1")
		f.run(t)
		f.want(t, "changed a 1", "changed a 1", "changed a 1")
	})
}
