package testbed

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// Application is a HelmRelease or Kustomization without a controller: a test writes its status as Flux's controllers do,
// step by step, and so chooses when an upgrade proceeds, fails or hangs. The cluster needs InstallFlux only.
type Application struct {
	Name, Namespace string

	objects dynamic.ResourceInterface
	helm    bool

	applied, attempted string
	history            []any  // rows of a HelmRelease, newest first
	released           string // version of the newest row
	generation         int64  // the newest one that the status is about
	edits              int
}

// HelmRelease makes a HelmRelease, and its namespace, without a status.
func (c *Cluster) HelmRelease(t testing.TB, namespace, name string) *Application {
	t.Helper()
	return c.application(t, HelmReleases(), "HelmRelease", namespace, name, map[string]any{
		"interval": "1h", "chartRef": map[string]any{"kind": "OCIRepository", "name": name},
	})
}

// Kustomization makes a Kustomization, and its namespace, without a status.
func (c *Cluster) Kustomization(t testing.TB, namespace, name string) *Application {
	t.Helper()
	return c.application(t, Kustomizations(), "Kustomization", namespace, name, map[string]any{
		"interval": "1h", "prune": true, "sourceRef": map[string]any{"kind": "GitRepository", "name": name},
	})
}

func (c *Cluster) application(t testing.TB, resource schema.GroupVersionResource, kind, namespace, name string,
	spec map[string]any) *Application {
	t.Helper()
	c.Apply(t, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "`+namespace+`"}}`)
	a := &Application{Name: name, Namespace: namespace, objects: c.Dynamic.Resource(resource).Namespace(namespace), helm: kind == "HelmRelease"}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": resource.GroupVersion().String(), "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec,
	}}
	if _, err := a.objects.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatalf("testbed: make %s %s: %v", kind, name, err)
	}
	return a
}

// Edit changes the spec, which the status is then not about.
func (a *Application) Edit(t testing.TB) {
	t.Helper()
	a.edits++
	a.patch(t, map[string]any{"spec": map[string]any{"timeout": fmt.Sprintf("%dm", a.edits)}})
}

// Suspend sets whether the controller ignores the application.
func (a *Application) Suspend(t testing.TB, suspend bool) {
	t.Helper()
	a.patch(t, map[string]any{"spec": map[string]any{"suspend": suspend}})
}

// Begin writes the status of a controller that has begun to bring a revision. With the revision that is applied it is a
// routine check, in which a Kustomization is not ready for a moment.
func (a *Application) Begin(t testing.TB, revision string) {
	t.Helper()
	check := revision == a.applied && revision == a.attempted
	a.attempted = revision
	ready := condition("Ready", "Unknown", "Progressing")
	if a.helm && check {
		ready = condition("Ready", "True", "UpgradeSucceeded")
	}
	a.write(t, condition("Reconciling", "True", "Progressing"), ready)
}

// Succeed writes the status of a controller that has brought a revision.
func (a *Application) Succeed(t testing.TB, revision string) {
	t.Helper()
	if a.helm && (revision != a.applied || revision != a.released) {
		for _, row := range a.history {
			row.(map[string]any)["status"] = "superseded"
		}
		a.record(revision, "deployed")
	}
	a.applied, a.attempted = revision, revision
	a.observe(t)
	a.write(t, condition("Ready", "True", map[bool]string{true: "UpgradeSucceeded", false: "ReconciliationSucceeded"}[a.helm]))
}

// Fail writes the status of a controller that could not bring a revision. The former one stays applied.
func (a *Application) Fail(t testing.TB, revision string) {
	t.Helper()
	a.attempted = revision
	if a.helm {
		a.record(revision, "failed")
	}
	a.observe(t)
	if a.helm {
		a.write(t, condition("Stalled", "True", "RetriesExceeded"), condition("Ready", "False", "UpgradeFailed"))
		return
	}
	a.write(t, condition("Ready", "False", "HealthCheckFailed"))
}

// Break writes that the applied revision is not healthy.
func (a *Application) Break(t testing.TB) {
	t.Helper()
	a.observe(t)
	a.write(t, condition("Ready", "False", "HealthCheckFailed"))
}

// Delete removes the application.
func (a *Application) Delete(t testing.TB) {
	t.Helper()
	if err := a.objects.Delete(t.Context(), a.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatalf("testbed: delete %s: %v", a.Name, err)
	}
}

// record adds a row to the history of a HelmRelease. Flux keeps five.
func (a *Application) record(version, status string) {
	const kept = 5
	now := time.Now().UTC().Format(time.RFC3339)
	a.released = version
	row := map[string]any{
		"chartName": a.Name, "chartVersion": version, "configDigest": "sha256:0", "digest": "sha256:0", "status": status,
		"firstDeployed": now, "lastDeployed": now, "name": a.Name, "namespace": a.Namespace, "version": len(a.history) + 1,
	}
	a.history = slices.Insert(a.history, 0, any(row))
	a.history = a.history[:min(kept, len(a.history))]
}

// observe makes the status one about the newest generation.
func (a *Application) observe(t testing.TB) {
	t.Helper()
	object, err := a.objects.Get(t.Context(), a.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatalf("testbed: read %s: %v", a.Name, err)
	}
	a.generation = object.GetGeneration()
}

// write replaces the status.
func (a *Application) write(t testing.TB, conditions ...map[string]any) {
	t.Helper()
	for _, c := range conditions {
		c["observedGeneration"] = a.generation
	}
	status := map[string]any{"conditions": conditions, "lastAttemptedRevision": a.attempted}
	if a.generation > 0 {
		status["observedGeneration"] = a.generation
	}
	if a.helm {
		status["history"] = a.history
	} else if a.applied != "" {
		status["lastAppliedRevision"] = a.applied
	}
	a.patch(t, map[string]any{"status": status}, "status")
}

func (a *Application) patch(t testing.TB, change map[string]any, subresource ...string) {
	t.Helper()
	content, err := json.Marshal(change)
	if err != nil {
		t.Fatalf("testbed: change %s: %v", a.Name, err)
	}
	if _, err := a.objects.Patch(t.Context(), a.Name, types.MergePatchType, content, metav1.PatchOptions{}, subresource...); err != nil {
		t.Fatalf("testbed: change %s: %v", a.Name, err)
	}
}

func condition(kind, status, reason string) map[string]any {
	return map[string]any{"type": kind, "status": status, "reason": reason, "message": reason,
		"lastTransitionTime": time.Now().UTC().Format(time.RFC3339)}
}
