//go:build services

package workflow_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/internal/sqlite"
	"github.com/waybill-dev/waybill/test/testbed"
)

// TestKilledProgramGoesOn: the program itself, killed while its workflow runs, records the end when it is started again.
func TestKilledProgramGoesOn(t *testing.T) {
	cluster := testbed.Kubernetes(t)
	testbed.Argo(t, cluster)
	home := t.TempDir()
	program, err := childtest.Program(t.Context(), "../../..", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	driver, err := sqlite.Open(t.Context(), filepath.Join(home, "waybill.db"))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorldOn(t, cluster, filepath.Join(home, "blobs"), driver)
	cluster.Apply(t, fmt.Sprintf(templates, w.cluster.Namespace))
	config := fmt.Sprintf(
		`handlers: {argo: {type: argo, argoConf: {k8sOptions: {kubeconfig: %q, configOverrides: {context: {namespace: %s}}}}}}`,
		cluster.Kubeconfig, w.cluster.Namespace)
	if err := os.WriteFile(filepath.Join(home, "server.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	start := func() (kill func()) {
		run := exec.CommandContext(t.Context(), program, "serve", "conductor", "caboose", "--home", home)
		run.Stderr = os.Stderr
		if err := run.Start(); err != nil {
			t.Fatal(err)
		}
		return func() {
			if err := run.Process.Kill(); err != nil {
				t.Error(err)
			}
			_ = run.Wait() // it was killed
		}
	}
	kill := start()
	id := w.enqueue(`{"template": "workflowtemplate/mirror", "parameters": {"features": [], "wait": "6"}}`)
	w.awaitStatus(id, action.Running)
	kill()
	cluster.Await(t, w.workflows(), id.String(), func(one *unstructured.Unstructured) bool {
		phase, _, _ := unstructured.NestedString(one.Object, "status", "phase") // absent: not yet
		return phase == "Succeeded"
	})
	kill = start()
	defer kill()
	if state := w.awaitStatus(id, action.Successful); string(state.Output) != `{"features":[],"zone":"none"}` {
		t.Errorf("output %s", state.Output)
	}
	w.awaitGone(id.String())
	w.wantHistory(id, action.Queued, action.Running, action.Successful)
}
