package kubetest_test

import (
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	kubetest.Run(t, func(t *testing.T) *kube.Cluster {
		api := kubetest.New(t)
		api.Install(kubetest.Thing)
		return api.Cluster("test")
	})
}

func secret(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{
		Object: map[string]any{
			"apiVersion": "v1",
			"kind":       "Secret",
			"metadata":   map[string]any{"name": name, "namespace": "test"},
		},
	}
}

// world has a watch of Secrets.
type world struct {
	*kubetest.API
	cluster *kube.Cluster
	watch   watch.Interface
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{API: kubetest.New(t)}
	w.cluster = w.Cluster("test")
	w.follow(t, "")
	return w
}

func (w *world) follow(t *testing.T, version string) {
	t.Helper()
	var err error
	if w.watch, err = w.cluster.Secrets().Watch(t.Context(), metav1.ListOptions{ResourceVersion: version}); err != nil {
		t.Fatal(err)
	}
}

func (w *world) make(t *testing.T, name string) string {
	t.Helper()
	made, err := w.cluster.Secrets().Create(t.Context(), secret(name), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made.GetResourceVersion()
}

// want checks the next event; "" is the watch's end.
func (w *world) want(t *testing.T, want string) {
	t.Helper()
	got := ""
	if event, open := <-w.watch.ResultChan(); open {
		got = string(event.Type)
		if object, ok := event.Object.(*unstructured.Unstructured); ok {
			got = fmt.Sprintf("%s %s", event.Type, object.GetName())
		}
	}
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestHeldEventsComeLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Hold()
	w.make(t, "a")
	if _, err := w.cluster.Secrets().Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	select {
	case event := <-w.watch.ResultChan():
		t.Errorf("got %v", event)
	default:
	}
	w.Release()
	w.want(t, "ADDED a")
}

func TestEventsAreRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.make(t, "a")
	w.want(t, "ADDED a")
	w.Repeat()
	w.want(t, "MODIFIED a")
	version := w.make(t, "b")
	w.want(t, "ADDED b")
	w.follow(t, version) // what was repeated before is older
	w.make(t, "c")
	w.want(t, "ADDED c")
}

func TestACutWatchIsContinued(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	version := w.make(t, "a")
	w.want(t, "ADDED a")
	w.Cut()
	w.want(t, "")
	w.make(t, "b")
	w.follow(t, version)
	w.want(t, "ADDED b")
}

func TestAForgottenVersionIsExpired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	version := w.make(t, "a")
	w.want(t, "ADDED a")
	w.Forget()
	w.want(t, "")
	w.follow(t, version)
	w.want(t, "ERROR")
	list, err := w.cluster.Secrets().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	w.follow(t, list.GetResourceVersion())
	w.make(t, "b")
	w.want(t, "ADDED b")
}

func TestRequestsAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	away := errors.New("away")
	var got []kubetest.Request
	w.Before(func(r kubetest.Request) error {
		got = append(got, r)
		return away
	})
	if _, err := w.cluster.Secrets().Create(t.Context(), secret("a"), metav1.CreateOptions{}); !errors.Is(err, away) {
		t.Error(err)
	}
	if want := (kubetest.Request{Verb: "create", Resource: "secrets", Namespace: "test", Name: "a"}); len(got) != 1 ||
		got[0] != want {
		t.Errorf("got %+v", got)
	}
}

// TestWhatWasAddedIsKeptAsItIs with its UID and its status.
func TestWhatWasAddedIsKeptAsItIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pod := secret("p")
	pod.SetUID("own")
	pod.Object["status"] = map[string]any{"phase": "Running"}
	w.Add(kubetest.Pods, pod)
	got, err := w.cluster.Pods().Get(t.Context(), "p", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if phase, _, _ := unstructured.NestedString(got.Object, "status", "phase"); got.GetUID() != "own" ||
		phase != "Running" {
		t.Errorf("got %v", got)
	}
}
