package testbed

import (
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/test/testbed/binary"
)

// fluxModules are the modules of Flux's controllers.
var fluxModules = []string{binary.SourceModule, binary.KustomizeModule, binary.HelmModule}

// HelmReleases returns the resource of Flux's helm-controller.
func HelmReleases() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "helm.toolkit.fluxcd.io", Version: "v2", Resource: "helmreleases"}
}

// Kustomizations returns the resource of Flux's kustomize-controller.
func Kustomizations() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Resource: "kustomizations"}
}

// GitRepositories returns the resource of Flux's source-controller that stands for a branch.
func GitRepositories() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "source.toolkit.fluxcd.io", Version: "v1", Resource: "gitrepositories"}
}

// InstallFlux installs Flux's resource definitions and nothing that acts on them: a test that writes statuses itself
// needs no more.
func (c *Cluster) InstallFlux(t testing.TB) {
	t.Helper()
	for _, module := range fluxModules {
		source, err := binary.Flux(module).ModuleDir(t.Context(), module)
		if err != nil {
			t.Fatalf("testbed: %v", err)
		}
		definitions, err := filepath.Glob(filepath.Join(source, "config", "crd", "bases", "*.yaml"))
		if err != nil || len(definitions) == 0 {
			t.Fatalf("testbed: no resource definitions in %s (%v)", source, err)
		}
		for _, file := range definitions {
			c.applyFile(t, file)
		}
	}
}

// FluxControllers are Flux's source-, kustomize- and helm-controller of one cluster. Each can be killed alone.
type FluxControllers struct {
	Source, Kustomize, Helm *Controller
}

// Flux installs Flux's resource definitions and runs its three controllers on the cluster, for every namespace; about ten
// seconds. The cluster has no nodes, so objects that Flux applies must be Ready without pods.
func Flux(t testing.TB, cluster *Cluster) *FluxControllers {
	t.Helper()
	programs := make([]string, len(fluxModules))
	for i, module := range fluxModules {
		programs[i] = program(t, binary.Flux(module))
	}
	cluster.InstallFlux(t)
	cluster.Apply(t, `{apiVersion: v1, kind: Namespace, metadata: {name: flux-system}}`)
	storage := addresses(t, 1)[0]
	flags := [][]string{
		{"--storage-addr=" + storage, "--storage-adv-addr=" + storage, "--storage-path=" + t.TempDir()},
		nil,
		{"--graceful-shutdown-timeout=1s"},
	}
	controllers := make([]*Controller, len(programs))
	var starts []func()
	for i, file := range programs {
		name := path.Base(fluxModules[i])
		starts = append(starts, func() { controllers[i] = cluster.fluxController(t, name, append([]string{file}, flags[i]...)) })
	}
	Together(t, starts...)
	return &FluxControllers{Source: controllers[0], Kustomize: controllers[1], Helm: controllers[2]}
}

// fluxController runs one of Flux's controllers, whose command begins as given. It looks again within a second at objects
// that failed or wait for a dependency.
func (c *Cluster) fluxController(t testing.TB, name string, command []string) *Controller {
	t.Helper()
	folder, health := t.TempDir(), addresses(t, 1)[0]
	temporary := filepath.Join(folder, "tmp")
	if err := os.Mkdir(temporary, 0o755); err != nil {
		t.Fatalf("testbed: prepare %s: %v", name, err)
	}
	run := &service{
		name: name, dir: folder, died: c.fail,
		argv: append(command, "--metrics-addr=0", "--health-addr="+health, "--events-addr=", "--log-level=info",
			"--requeue-dependency=1s", "--min-retry-delay=250ms", "--max-retry-delay=2s"),
		env: []string{"KUBECONFIG=" + c.Kubeconfig, "RUNTIME_NAMESPACE=flux-system", "TMPDIR=" + temporary,
			"TUF_ROOT=" + filepath.Join(temporary, "tuf")},
		ready: answers(http.DefaultClient, "http://"+health+"/readyz"),
	}
	run.manage(t)
	return &Controller{run}
}

// Kill kills all three controllers without warning; objects stay as they are.
func (f *FluxControllers) Kill(t testing.TB) {
	t.Helper()
	for _, controller := range []*Controller{f.Source, f.Kustomize, f.Helm} {
		controller.Kill(t)
	}
}

// Start starts all three controllers again after Kill.
func (f *FluxControllers) Start(t testing.TB) {
	t.Helper()
	Together(t, func() { f.Source.Start(t) }, func() { f.Kustomize.Start(t) }, func() { f.Helm.Start(t) })
}

// Ready returns the status of an object's condition Ready: True, False, Unknown, or nothing.
func Ready(object *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions") // absent: not yet
	for _, one := range conditions {
		condition, ok := one.(map[string]any)
		if ok && condition["type"] == "Ready" {
			status, _ := condition["status"].(string)
			return status
		}
	}
	return ""
}

// AppliedRevision returns the revision that a Kustomization has applied.
func AppliedRevision(object *unstructured.Unstructured) string {
	revision, _, _ := unstructured.NestedString(object.Object, "status", "lastAppliedRevision") // absent: nothing
	return revision
}

// ChartVersion returns the version of a HelmRelease's chart that is deployed.
func ChartVersion(object *unstructured.Unstructured) string {
	history, _, _ := unstructured.NestedSlice(object.Object, "status", "history") // absent: nothing
	for _, one := range history {
		snapshot, ok := one.(map[string]any)
		if ok && snapshot["status"] == "deployed" {
			version, _ := snapshot["chartVersion"].(string)
			version, _, _ = strings.Cut(version, "+")
			return version
		}
	}
	return ""
}

// Settled reports whether a controller has seen the newest generation of an object.
func Settled(object *unstructured.Unstructured) bool {
	seen, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration") // absent: not yet
	return seen == object.GetGeneration()
}
