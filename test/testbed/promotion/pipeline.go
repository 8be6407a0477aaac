package promotion

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	gitops "github.com/waybill-dev/waybill/api/kube/gitops/v1alpha1"
	pipelines "github.com/waybill-dev/waybill/api/kube/v1alpha1"
)

// Pace has the times that the pipeline waits, in the form of its fields.
type Pace struct {
	Settle, Soak string
}

// Bot is the user of the Git host that Waybill uses.
const Bot = "waybill"

// Install installs the resource definitions on the management cluster, connects the leaf clusters, and defines the
// pipeline of the worked example.
func (w *World) Install(t testing.TB, pace Pace) {
	t.Helper()
	w.Management.Apply(t, string(pipelines.Definition))
	w.Management.Apply(t, string(gitops.Definition))
	w.Management.Apply(t, fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", Namespace))
	for _, leaf := range []*Site{&w.Europe, &w.America} {
		w.Connect(t, leaf)
	}
	bot := w.Host.As(t, Bot)
	w.Fleet.Allow(t, Bot, "write")
	w.secret(t, "fleet-git", map[string]string{"username": bot.User, "password": bot.Token, "token": bot.Token})
	w.Management.Apply(t, w.Manifest(pace))
}

// Connect makes the GitopsCluster of a leaf cluster, and the Secret that it names.
func (w *World) Connect(t testing.TB, leaf *Site) {
	t.Helper()
	w.secret(t, leaf.Name+"-kubeconfig", map[string]string{"kubeconfig": leaf.PortableKubeconfig(t)})
	w.Management.Apply(t, fmt.Sprintf(
		"{apiVersion: gitops.weave.works/v1alpha1, kind: GitopsCluster, metadata: {name: %[1]s, namespace: %[2]s}, spec: {secretRef: {name: %[1]s-kubeconfig}}}",
		leaf.Name, Namespace))
}

// secret creates or changes a Secret in the pipeline's namespace.
func (w *World) secret(t testing.TB, name string, values map[string]string) {
	t.Helper()
	data := map[string]string{}
	for key, value := range values {
		data[key] = base64.StdEncoding.EncodeToString([]byte(value))
	}
	object, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name, "namespace": Namespace}, "data": data,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Management.Apply(t, string(object))
}

// Manifest returns the pipeline of the worked example.
func (w *World) Manifest(pace Pace) string {
	return fmt.Sprintf(pipelineManifest, Namespace, App, w.Fleet.URL, pace.Settle, pace.Soak, w.Smoke.URL)
}

// Pipelines returns the pipelines of the example's namespace.
func (w *World) Pipelines() dynamic.ResourceInterface {
	return w.Management.Dynamic.Resource(pipelines.Resource()).Namespace(Namespace)
}

// Pipeline returns the pipeline as it is.
func (w *World) Pipeline(t testing.TB) pipelines.Pipeline {
	t.Helper()
	object, err := w.Pipelines().Get(t.Context(), App, metav1.GetOptions{})
	if err != nil {
		t.Fatalf("read the pipeline: %v", err)
	}
	content, err := json.Marshal(object)
	if err != nil {
		t.Fatalf("read the pipeline: %v", err)
	}
	var p pipelines.Pipeline
	if err := json.Unmarshal(content, &p); err != nil {
		t.Fatalf("read the pipeline: %v", err)
	}
	return p
}
