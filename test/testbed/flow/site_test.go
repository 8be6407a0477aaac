//go:build services

package flow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/flow/controller"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/test/testbed"
)

var (
	definitions   = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	namespaces    = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	flows         = v1alpha1.Resource()
	brokers       = schema.GroupVersionResource{Group: "eventing.knative.dev", Version: "v1", Resource: "brokers"}
	channels      = schema.GroupVersionResource{Group: "messaging.knative.dev", Version: "v1", Resource: "channels"}
	sources       = schema.GroupVersionResource{Group: "sources.kyma-project.io", Version: "v1alpha1", Resource: "httpsources"}
	subscriptions = schema.GroupVersionResource{Group: "messaging.knative.dev", Version: "v1", Resource: "subscriptions"}
)

// account applies rbac.yaml, and returns a kubeconfig of the account of the role flow.
func account(t *testing.T, cluster *testbed.Cluster) string {
	t.Helper()
	rights, err := os.ReadFile("../../../config/flow/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cluster.Apply(t, string(rights))
	return cluster.Account(t, "waybill", "waybill-flow")
}

// open returns a client with the identity of a kubeconfig.
func open(t *testing.T, kubeconfig string) *kube.Cluster {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	write(t, file, kubeconfig)
	client, err := kube.Open(kube.Config{Kubeconfig: file, Namespace: "waybill"})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// write writes a file that only this user may read.
func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// startController runs a controller until stop is called or the test ends.
func startController(t *testing.T, config controller.Config) (stop func()) {
	t.Helper()
	config.Applications, config.Log = []string{"kyma-integration"}, slog.New(slog.NewTextHandler(t.Output(), nil))
	c := controller.New(config)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := c.Run(ctx); err != nil {
			t.Errorf("controller %s: %v", config.Identity, err)
		}
	}()
	stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(stop)
	return stop
}

// site is a cluster without Knative's programs: the test makes Brokers, Channels, Subscriptions and sources ready.
type site struct {
	*testbed.Cluster
	t *testing.T
}

// newSite returns a cluster without definitions of resources.
func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{Cluster: testbed.Kubernetes(t), t: t}
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(ended)
		s.provide(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return s
}

// installAll installs the definitions that flows need to become ready.
func (s *site) installAll() {
	s.t.Helper()
	s.InstallKnative(s.t)
	s.InstallReferenceGrants(s.t)
	s.Apply(s.t, string(v1alpha1.Definition))
}

// provide makes new objects ready until ctx ends.
func (s *site) provide(ctx context.Context) {
	for {
		for _, resource := range []schema.GroupVersionResource{brokers, channels, sources, subscriptions} {
			all, err := s.Dynamic.Resource(resource).List(ctx, metav1.ListOptions{})
			if err != nil {
				continue // the resource may be missing
			}
			for _, o := range all.Items {
				if seen, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration"); seen != o.GetGeneration() {
					s.makeReady(ctx, resource, &o)
				}
			}
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
}

func (s *site) makeReady(ctx context.Context, resource schema.GroupVersionResource, o *unstructured.Unstructured) {
	status, err := json.Marshal(map[string]any{"status": map[string]any{
		"observedGeneration": o.GetGeneration(),
		"address":            map[string]any{"url": "http://" + o.GetName() + ".example"},
		"conditions":         []any{map[string]any{"type": "Ready", "status": "True"}},
	}})
	if err != nil {
		s.t.Error(err)
	}
	_, err = s.Dynamic.Resource(resource).Namespace(o.GetNamespace()).Patch(ctx, o.GetName(), types.MergePatchType, status,
		metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		s.t.Logf("make %s %s ready: %v", o.GetKind(), o.GetName(), err)
	}
}

// undefine removes the definition of a resource, and with it the objects.
func (s *site) undefine(resource schema.GroupVersionResource) {
	s.t.Helper()
	name := resource.GroupResource().String()
	s.delete(definitions, "", name)
	s.AwaitGone(s.t, s.Dynamic.Resource(definitions), name)
}

// await waits until a flow has conditions, each as "type status reason".
func (s *site) await(namespace, name string, want ...string) {
	s.t.Helper()
	s.Await(s.t, s.Dynamic.Resource(flows).Namespace(namespace), name, func(o *unstructured.Unstructured) bool {
		list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		found := map[string]bool{}
		for _, one := range list {
			c, _ := one.(map[string]any)
			found[fmt.Sprintf("%s %s %s", c["type"], c["status"], c["reason"])] = true
		}
		return !slices.ContainsFunc(want, func(one string) bool { return !found[one] })
	})
}

// delete deletes an object as a user does, if it exists.
func (s *site) delete(resource schema.GroupVersionResource, namespace, name string) {
	s.t.Helper()
	if err := s.Dynamic.Resource(resource).Namespace(namespace).Delete(s.t.Context(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		s.t.Fatal(err)
	}
}

// list returns the objects of all namespaces.
func (s *site) list(resource schema.GroupVersionResource) []unstructured.Unstructured {
	s.t.Helper()
	all, err := s.Dynamic.Resource(resource).List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return all.Items
}
