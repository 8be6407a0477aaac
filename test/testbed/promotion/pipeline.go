package promotion

import (
	"fmt"
	"testing"

	gitops "github.com/waybill-dev/waybill/api/kube/gitops/v1alpha1"
	pipelines "github.com/waybill-dev/waybill/api/kube/v1alpha1"
	"github.com/waybill-dev/waybill/test/testbed"
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
	installDefinitions(t, w.Management)
	w.Management.Apply(t, fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", Namespace))
	for _, leaf := range []*Site{&w.Europe, &w.America} {
		w.connect(t, leaf.Name, leaf.Cluster)
	}
	w.admit(t, w.Host.As(t, Bot))
	w.Management.Apply(t, w.Manifest(pace))
}

// Manifest returns the pipeline of the worked example.
func (w *World) Manifest(pace Pace) string {
	return fmt.Sprintf(pipelineManifest, Namespace, App, w.Repository.URL, pace.Settle, pace.Soak, w.Smoke.URL)
}

// installDefinitions installs the resources Pipeline and GitopsCluster.
func installDefinitions(t testing.TB, management *testbed.Cluster) {
	t.Helper()
	management.Apply(t, string(pipelines.Definition))
	management.Apply(t, string(gitops.Definition))
}
