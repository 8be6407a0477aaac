package testbed

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Account makes a ServiceAccount without rights, unless it exists. It returns a kubeconfig with a new token of it that
// names no files.
func (c *Cluster) Account(t testing.TB, namespace, name string) (kubeconfig string) {
	t.Helper()
	return c.portable(t, c.Token(t, namespace, name))
}

// Token makes a ServiceAccount without rights, unless it exists, and returns a new token of it.
func (c *Cluster) Token(t testing.TB, namespace, name string) string {
	t.Helper()
	c.Apply(t, `{apiVersion: v1, kind: Namespace, metadata: {name: `+namespace+`}}`)
	c.Apply(t, `{apiVersion: v1, kind: ServiceAccount, metadata: {name: `+name+`, namespace: `+namespace+`}}`)
	request := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"expirationSeconds": int64(3600)},
	}}
	accounts := c.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}).Namespace(namespace)
	answer, err := accounts.Create(t.Context(), request, metav1.CreateOptions{}, "token")
	if err != nil {
		t.Fatalf("testbed: make a token of account %s: %v", name, err)
	}
	made, _, err := unstructured.NestedString(answer.Object, "status", "token")
	if err != nil || made == "" {
		t.Fatalf("testbed: make a token of account %s: %v (%v)", name, answer.Object, err)
	}
	return made
}
