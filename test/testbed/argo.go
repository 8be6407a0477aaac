package testbed

import (
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/test/testbed/binary"
)

// Workflows returns the resource that Argo runs.
func Workflows() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "workflows"}
}

// InstallWorkflows installs Argo's resource definitions and nothing that acts on
// them: a test that writes the status of workflows itself needs no more.
func (c *Cluster) InstallWorkflows(t testing.TB) {
	t.Helper()
	source, err := binary.Argo().ModuleDir(t.Context(), binary.ArgoModule)
	if err != nil {
		t.Fatalf("testbed: %v", err)
	}
	definitions, err := filepath.Glob(filepath.Join(source, "manifests", "base", "crds", "minimal", "argoproj.io_*.yaml"))
	if err != nil || len(definitions) == 0 {
		t.Fatalf("testbed: no resource definitions in %s (%v)", source, err)
	}
	for _, file := range definitions {
		c.applyFile(t, file)
	}
}

// Argo installs Argo's resource definitions and runs its controller on the
// cluster, for workflows in every namespace. The cluster has no nodes, so templates of
// workflows may suspend, wait and branch, and not run containers.
//
// The controller also tries to listen on port 6060, which it cannot be talked
// out of, and lives without it.
func Argo(t testing.TB, cluster *Cluster) *Controller {
	t.Helper()
	controller := program(t, binary.Argo())
	cluster.InstallWorkflows(t)
	cluster.Apply(t, settings)
	run := &service{
		name: "argo", dir: t.TempDir(),
		argv: []string{controller, "--kubeconfig", cluster.Kubeconfig, "--namespace", "argo", "--executor-image", "none",
			"--qps", "1000", "--burst", "1000"},
		died: cluster.fail,
		env:  []string{"LEADER_ELECTION_DISABLE=true", "DEFAULT_REQUEUE_TIME=100ms"},
	}
	run.manage(t)
	return &Controller{run}
}

// Controller is a controller that runs beside a cluster.
type Controller struct{ run *service }

// Kill kills the controller without warning; objects stay as they are.
func (c *Controller) Kill(t testing.TB) {
	t.Helper()
	c.run.kill(t)
}

// Start starts the controller again after Kill.
func (c *Controller) Start(t testing.TB) {
	t.Helper()
	c.run.start(t)
}

// settings turn off what needs nodes or a port.
const settings = `
apiVersion: v1
kind: Namespace
metadata: {name: argo}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: workflow-controller-configmap, namespace: argo}
data:
  nodeEvents: |
    enabled: false
  metricsConfig: |
    enabled: false
  telemetryConfig: |
    enabled: false
`
