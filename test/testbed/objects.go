package testbed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// Namespace makes a namespace with a name that no other test has.
func (c *Cluster) Namespace(t testing.TB) string {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"generateName": "test-"},
	}}
	namespaces := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	made, err := c.Dynamic.Resource(namespaces).Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("testbed: make a namespace: %v", err)
	}
	if c.machine != nil { // no pod is made before the controllers have made its account
		accounts := c.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}).Namespace(made.GetName())
		c.Await(t, accounts, "default", func(*unstructured.Unstructured) bool { return true })
	}
	return made.GetName()
}

// Apply creates or changes every object of YAML documents, and waits for custom
// resource definitions to be served.
func (c *Cluster) Apply(t testing.TB, documents string) {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(c.Config)
	if err != nil {
		t.Fatalf("testbed: apply: %v", err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client))
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(documents)), 4096)
	for {
		var object unstructured.Unstructured
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("testbed: apply: %v", err)
		}
		if len(object.Object) == 0 {
			continue // nothing but comments
		}
		if err := c.apply(t, mapper, &object); err != nil {
			t.Fatalf("testbed: apply %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
}

func (c *Cluster) apply(t testing.TB, mapper meta.RESTMapper, object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	var resource dynamic.ResourceInterface = c.Dynamic.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		resource = c.Dynamic.Resource(mapping.Resource).Namespace(object.GetNamespace())
	}
	_, err = resource.Apply(t.Context(), object.GetName(), object, metav1.ApplyOptions{FieldManager: "testbed", Force: true})
	if err != nil || kind.Kind != "CustomResourceDefinition" {
		return err
	}
	c.Await(t, resource, object.GetName(), established)
	return nil
}

// established reports whether a custom resource definition is served.
func established(object *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions") // absent: not yet
	for _, one := range conditions {
		condition, ok := one.(map[string]any)
		if ok && condition["type"] == "Established" && condition["status"] == "True" {
			return true
		}
	}
	return false
}

// Await watches an object until done holds, and returns it as it was then. An
// object that does not exist yet is waited for.
func (c *Cluster) Await(t testing.TB, resource dynamic.ResourceInterface, name string,
	done func(*unstructured.Unstructured) bool) *unstructured.Unstructured {
	t.Helper()
	ctx, cancel := c.patient(t.Context())
	defer cancel(nil)
	only := fields.OneTermEqualSelector("metadata.name", name).String()
	lists := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = only
			return resource.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = only
			return resource.Watch(ctx, options)
		},
	}
	var last *unstructured.Unstructured
	event, err := watchtools.UntilWithSync(ctx, lists, &unstructured.Unstructured{}, nil, func(event watch.Event) (bool, error) {
		object, ok := event.Object.(*unstructured.Unstructured)
		if !ok || event.Type == watch.Deleted {
			return false, nil
		}
		last = object
		return done(object), nil
	})
	if err != nil {
		t.Fatalf("testbed: await %s: %v (%v); last seen: %v", name, err, context.Cause(ctx), last)
	}
	return event.Object.(*unstructured.Unstructured)
}

// AwaitGone waits until an object does not exist.
func (c *Cluster) AwaitGone(t testing.TB, resource dynamic.ResourceInterface, name string) {
	t.Helper()
	ctx, cancel := c.patient(t.Context())
	defer cancel(nil)
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		last, err := resource.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("testbed: await the end of %s: %v; last seen: %v (%v)", name, context.Cause(ctx), last, err)
		}
	}
}

// patient returns a context that ends when waiting has become long or vain.
func (c *Cluster) patient(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(patience, func() { cancel(fmt.Errorf("not so after %s", patience)) })
	go func() {
		defer late.Stop()
		select {
		case why := <-c.broken:
			c.fail(why) // reported by the next wait
			cancel(why)
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// applyFile applies the documents of a file.
func (c *Cluster) applyFile(t testing.TB, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("testbed: apply %s: %v", path, err)
	}
	c.Apply(t, string(content))
}
