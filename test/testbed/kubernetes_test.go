//go:build services

package testbed_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/waybill-dev/waybill/test/testbed"
)

// gate returns a workflow that waits until it is resumed.
func gate(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
		"metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"entrypoint": "wait",
			"templates":  []any{map[string]any{"name": "wait", "suspend": map[string]any{}}},
		},
	}}
}

func TestClusterKeepsItsDataWhenItsServerIsKilled(t *testing.T) {
	t.Parallel()
	cluster := testbed.Kubernetes(t)
	cluster.InstallWorkflows(t)
	workflows := cluster.Dynamic.Resource(testbed.Workflows()).Namespace(cluster.Namespace(t))
	made, err := workflows.Create(t.Context(), gate("kept"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}

	cluster.Kill(t)
	if _, err := workflows.Get(t.Context(), "kept", metav1.GetOptions{}); err == nil || apierrors.IsNotFound(err) {
		t.Fatalf("get from a killed server: got %v, want no answer", err)
	}
	cluster.Start(t)

	got, err := workflows.Get(t.Context(), "kept", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.GetUID() != made.GetUID() {
		t.Errorf("uid after a restart: got %s, want %s", got.GetUID(), made.GetUID())
	}
}

func TestClusterRefusesWhatItsDefinitionsForbid(t *testing.T) {
	t.Parallel()
	cluster := testbed.Kubernetes(t)
	cluster.InstallWorkflows(t)
	workflows := clientFromFile(t, cluster.Kubeconfig).Resource(testbed.Workflows()).Namespace(cluster.Namespace(t))
	bad := gate("bad")
	delete(bad.Object, "spec")
	_, err := workflows.Create(t.Context(), bad, metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) {
		t.Errorf("create a workflow without spec: got %v, want invalid", err)
	}
}

// clientFromFile proves that the kubeconfig serves other processes too.
func clientFromFile(t *testing.T, kubeconfig string) dynamic.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestArgoRunsAWorkflowThatIsResumed(t *testing.T) {
	t.Parallel()
	cluster := testbed.Kubernetes(t)
	argo := testbed.Argo(t, cluster)
	workflows := cluster.Dynamic.Resource(testbed.Workflows()).Namespace(cluster.Namespace(t))
	if _, err := workflows.Create(t.Context(), gate("gate"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	cluster.Await(t, workflows, "gate", func(w *unstructured.Unstructured) bool { return phase(w) == "Running" && len(waiting(w)) == 1 })

	argo.Kill(t)
	resume(t, workflows, "gate")
	argo.Start(t)

	cluster.Await(t, workflows, "gate", func(w *unstructured.Unstructured) bool { return phase(w) == "Succeeded" })
}

func phase(workflow *unstructured.Unstructured) string {
	phase, _, _ := unstructured.NestedString(workflow.Object, "status", "phase") // absent: not seen by Argo yet
	return phase
}

// waiting returns the ids of the nodes that wait to be resumed.
func waiting(workflow *unstructured.Unstructured) (ids []string) {
	nodes, _, _ := unstructured.NestedMap(workflow.Object, "status", "nodes") // absent: none yet
	for id, node := range nodes {
		node, ok := node.(map[string]any)
		if ok && node["type"] == "Suspend" && node["phase"] == "Running" {
			ids = append(ids, id)
		}
	}
	return ids
}

// resume marks the waiting nodes as done, as Argo's own command line does.
func resume(t *testing.T, workflows dynamic.ResourceInterface, name string) {
	t.Helper()
	workflow, err := workflows.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range waiting(workflow) {
		if err := unstructured.SetNestedField(workflow.Object, "Succeeded", "status", "nodes", id, "phase"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := workflows.Update(t.Context(), workflow, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}
