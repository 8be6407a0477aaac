package pool_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
	"github.com/waybill-dev/waybill/internal/kube/pool"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// Kinds of the tests.
var (
	gitopsClusters = kind("gitops.weave.works", "v1alpha1", "gitopsclusters", "GitopsCluster")
	kustomizations = kind("kustomize.toolkit.fluxcd.io", "v1", "kustomizations", "Kustomization")
	helmReleases   = kind("helm.toolkit.fluxcd.io", "v2", "helmreleases", "HelmRelease")
	secrets        = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
)

func kind(group, version, resource, name string) kubetest.Kind {
	in := schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
	return kubetest.Kind{GroupVersionResource: in, Kind: name}
}

func gvk(k kubetest.Kind) schema.GroupVersionKind { return k.GroupVersion().WithKind(k.Kind) }

// world has a management cluster and a pool. Leaves are added by name.
type world struct {
	t          *testing.T
	pool       *pool.Pool
	management *kubetest.Server

	mutex   sync.Mutex
	servers map[string]*kubetest.Server // by host
	all     []*kubetest.Server
	woken   map[string]int // by user
}

func newWorld(t *testing.T, kinds ...kubetest.Kind) *world {
	w := &world{t: t, servers: map[string]*kubetest.Server{}, woken: map[string]int{}}
	w.management = w.serve("management", append(kinds, gitopsClusters, kustomizations)...)
	config, err := pool.ParseKubeconfig(w.management.Kubeconfig("management", "root"))
	if err != nil {
		t.Fatal(err)
	}
	w.pool = pool.New(pool.Config{
		Clusters: map[string]*rest.Config{"": config},
		Changed: func(users []string) {
			w.mutex.Lock()
			defer w.mutex.Unlock()
			for _, one := range users {
				w.woken[one]++
			}
		},
		Dial: func(ctx context.Context, _, address string) (net.Conn, error) {
			host, _, _ := strings.Cut(address, ":")
			w.mutex.Lock()
			server := w.servers[host]
			w.mutex.Unlock()
			if server == nil {
				return nil, fmt.Errorf("no such host %s", host)
			}
			return server.Dial(ctx)
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = w.pool.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		for _, one := range w.all {
			one.Close()
		}
	})
	return w
}

// euApp is the application of most tests.
var euApp = want("apps/eu", "prod", "podinfo")

// connected returns a world with the leaf cluster eu, in which euApp is seen at 1.0.0.
func connected(t *testing.T) (*world, *kubetest.Server) {
	w := newWorld(t)
	leaf := w.leaf("eu")
	add(leaf, app("prod", "podinfo", "1.0.0"))
	w.pool.Use("podinfo", []pool.Want{euApp})
	pass(time.Second)
	w.see(euApp, "1.0.0")
	w.wakes()
	return w, leaf
}

// serve starts a server under a host name.
func (w *world) serve(host string, kinds ...kubetest.Kind) *kubetest.Server {
	server := kubetest.OpenServer(kubetest.Open(kinds...))
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.servers[host], w.all = server, append(w.all, server)
	return server
}

// leaf starts a leaf cluster apps/NAME, whose token is "secret".
func (w *world) leaf(name string, kinds ...kubetest.Kind) *kubetest.Server {
	server := w.serve(name, append(kinds, kustomizations)...)
	server.Require("secret")
	w.secret(name, server.Kubeconfig(name, "secret"))
	w.management.Add(gitopsClusters.GroupVersionResource, object(gitopsClusters, "apps", name, map[string]any{
		"spec": map[string]any{"secretRef": map[string]any{"name": name}},
	}))
	return server
}

// secret stores a Secret with a kubeconfig.
func (w *world) secret(name string, kubeconfig []byte) {
	w.management.Add(secrets, object(kubetest.Kind{GroupVersionResource: secrets, Kind: "Secret"}, "apps", name,
		map[string]any{"data": map[string]any{"kubeconfig": base64Of(kubeconfig)}}))
}

func base64Of(text []byte) string { return base64.StdEncoding.EncodeToString(text) }

func object(k kubetest.Kind, namespace, name string, more map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	for field, value := range more {
		o.Object[field] = value
	}
	o.SetGroupVersionKind(gvk(k))
	o.SetNamespace(namespace)
	o.SetName(name)
	o.SetGeneration(1)
	return o
}

// app returns a Kustomization that is ready at a revision.
func app(namespace, name, revision string) *unstructured.Unstructured {
	return object(kustomizations, namespace, name, map[string]any{"status": map[string]any{
		"observedGeneration":    int64(1),
		"lastAppliedRevision":   revision,
		"lastAttemptedRevision": revision,
		"conditions":            []any{map[string]any{"type": "Ready", "status": "True", "reason": "ReconciliationSucceeded"}},
	}})
}

func add(s *kubetest.Server, o *unstructured.Unstructured) {
	s.Add(kustomizations.GroupVersionResource, o)
}

func remove(t *testing.T, s *kubetest.Server, namespace, name string) {
	t.Helper()
	err := s.Resource(kustomizations.GroupVersionResource).Namespace(namespace).
		Delete(t.Context(), name, metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func want(cluster, namespace, name string) pool.Want {
	return pool.Want{Cluster: cluster, GVK: gvk(kustomizations), Namespace: namespace, Name: name}
}

// pass lets time pass, in a bubble.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// see checks the state of an object: its applied revision, or why it is unknown.
func (w *world) see(of pool.Want, want string) {
	w.t.Helper()
	got := w.pool.State(of)
	text := got.App.Applied
	if got.Unseen != "" {
		text = string(got.Unseen)
	}
	if text != want {
		w.t.Errorf("%s %s/%s: got %s (%s), want %s", of.Cluster, of.Namespace, of.Name, text, got.Message, want)
	}
}

// wakes returns how often users were woken since the last call.
func (w *world) wakes() map[string]int {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	woken := w.woken
	w.woken = map[string]int{}
	return woken
}

func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	bubbletest.Test(t, f)
}

func TestApplicationsOfTwoClustersAreSeen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		add(w.management, app("dev", "podinfo", "1.0.0"))
		leaf := w.leaf("eu")
		add(leaf, app("prod", "podinfo", "0.9.0"))
		wants := []pool.Want{want("", "dev", "podinfo"), want("apps/eu", "prod", "podinfo"), want("apps/eu", "prod", "typo")}
		for _, state := range w.pool.Use("podinfo", wants) {
			if state.Unseen != promotion.NotSynced {
				t.Errorf("got %+v, want NotSynced", state)
			}
		}
		pass(time.Second)
		w.see(wants[0], "1.0.0")
		w.see(wants[1], "0.9.0")
		w.see(wants[2], "TargetNotFound")
		if w.wakes()["podinfo"] == 0 {
			t.Error("the user was not woken")
		}

		add(leaf, app("prod", "podinfo", "1.0.0"))
		synctest.Wait()
		w.see(wants[1], "1.0.0")
		if got := w.wakes()["podinfo"]; got != 1 {
			t.Errorf("woken %d times, want 1", got)
		}
		changed := app("prod", "podinfo", "1.0.0")
		changed.SetAnnotations(map[string]string{"a": "b"})
		changed.SetUID(w.uid(leaf, "prod", "podinfo"))
		add(leaf, changed)
		add(leaf, app("prod", "other", "1.0.0"))
		pass(time.Minute)
		if got := w.wakes(); len(got) > 0 {
			t.Errorf("an equal state woke %v", got)
		}
		remove(t, leaf, "prod", "podinfo")
		synctest.Wait()
		w.see(wants[1], "TargetNotFound")
		if got := leaf.Dialed(); got != 1 {
			t.Errorf("%d connections, want 1", got)
		}
	})
}

func (w *world) uid(s *kubetest.Server, namespace, name string) (uid types.UID) {
	w.t.Helper()
	got, err := s.Resource(kustomizations.GroupVersionResource).Namespace(namespace).
		Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return got.GetUID()
}
