package kubetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/waybill-dev/waybill/internal/kube/kubetest"
)

func thing(name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(kubetest.Thing.GroupVersion().WithKind(kubetest.Thing.Kind))
	object.SetName(name)
	return object
}

func TestAKindIsInstalledAndRemoved(t *testing.T) {
	t.Parallel()
	api := kubetest.New(t)
	things := api.Resource(kubetest.Thing.GroupVersionResource).Namespace("test")
	definitions := &world{API: api}
	var err error
	if definitions.watch, err = api.Resource(kubetest.Definitions).Watch(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	wantMissing := func() {
		t.Helper()
		if _, err := things.List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("list: got %v", err)
		}
		if _, err := things.Watch(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("watch: got %v", err)
		}
		if _, err := things.Create(t.Context(), thing("b"), metav1.CreateOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("create: got %v", err)
		}
	}
	wantMissing()
	for range 2 {
		api.Install(kubetest.Thing)
		definitions.want(t, "ADDED things.test.waybill.dev")
		w := &world{API: api}
		if w.watch, err = things.Watch(t.Context(), metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
		held := thing("a")
		held.SetFinalizers([]string{"test.waybill.dev/held"})
		if _, err := things.Create(t.Context(), held, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.want(t, "ADDED a")
		api.Remove(kubetest.Thing.GroupVersionResource)
		w.want(t, "DELETED a")
		w.want(t, "")
		definitions.want(t, "DELETED things.test.waybill.dev")
		wantMissing()
	}
	api.Remove(kubetest.Thing.GroupVersionResource) // without effect
}

func TestAnAnswerIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lost := errors.New("lost")
	var got []kubetest.Request
	w.After(func(r kubetest.Request) error {
		got = append(got, r)
		if r.Verb == "create" || r.Verb == "delete" {
			return lost
		}
		return nil
	})
	made, err := w.cluster.Secrets().Create(t.Context(), secret("a"), metav1.CreateOptions{})
	if !errors.Is(err, lost) || made != nil {
		t.Errorf("got %v, %v", made, err)
	}
	if _, err := w.cluster.Secrets().Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
		t.Errorf("the request was not done: %v", err)
	}
	if err := w.cluster.Secrets().Delete(t.Context(), "a", metav1.DeleteOptions{}); !errors.Is(err, lost) {
		t.Error(err)
	}
	if _, err := w.cluster.Secrets().Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the deletion was not done: %v", err)
	}
	if want := (kubetest.Request{Verb: "create", Resource: "secrets", Namespace: "test", Name: "a"}); len(got) != 4 ||
		got[0] != want {
		t.Errorf("got %+v", got)
	}
}

// config returns the configuration of clients of a server.
func config(t *testing.T, s *kubetest.Server) *rest.Config {
	t.Helper()
	c, err := clientcmd.RESTConfigFromKubeConfig(s.Kubeconfig("test.example", "token"))
	if err != nil {
		t.Fatal(err)
	}
	c.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return s.Dial(ctx) }
	c.QPS = -1
	return c
}

func TestAServerDeletesWithPreconditions(t *testing.T) {
	t.Parallel()
	api := kubetest.New(t)
	client, err := dynamic.NewForConfig(config(t, kubetest.NewServer(t, api)))
	if err != nil {
		t.Fatal(err)
	}
	secrets := api.Cluster("test").Secrets()
	made, err := secrets.Create(t.Context(), secret("a"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	over := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace("test")
	uid, version, old := made.GetUID(), made.GetResourceVersion(), "1"
	stale := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &old}}
	if err := over.Delete(t.Context(), "a", stale); !apierrors.IsConflict(err) {
		t.Errorf("an old version: %v", err)
	}
	if _, err := over.Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
		t.Errorf("after a refused deletion: %v", err)
	}
	right := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}}
	if err := over.Delete(t.Context(), "a", right); err != nil {
		t.Errorf("the version as read: %v", err)
	}
	if err := over.Delete(t.Context(), "a", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a missing object: %v", err)
	}
}

func TestAServerDescribesTheScopeOfKinds(t *testing.T) {
	t.Parallel()
	api := kubetest.New(t)
	api.Install(kubetest.Thing)
	server := kubetest.NewServer(t, api)
	c := config(t, server)
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		t.Fatal(err)
	}
	scopes := func(version string) (found []bool) {
		answer, err := client.Get(c.Host + "/apis/" + version)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if answer.StatusCode == http.StatusNotFound {
			return nil
		}
		var list metav1.APIResourceList
		if err := json.NewDecoder(answer.Body).Decode(&list); err != nil {
			t.Fatal(err)
		}
		for _, one := range list.APIResources {
			found = append(found, one.Namespaced)
		}
		return found
	}
	for version, want := range map[string][]bool{"apiextensions.k8s.io/v1": {false}, "test.waybill.dev/v1": {true}} {
		if got := scopes(version); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", version, got, want)
		}
	}
	objects, err := dynamic.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	list, err := objects.Resource(kubetest.Definitions).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Errorf("got %v, %v", list, err)
	}
	api.Remove(kubetest.Thing.GroupVersionResource)
	if got := scopes("test.waybill.dev/v1"); len(got) > 0 {
		t.Errorf("a removed kind: got %v", got)
	}
}
