package runner

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/kube"
)

// TestStepsOnWindowsAreRefusedWithTheirPlace: all at once, and without a question to the cluster, which does not answer here.
func TestStepsOnWindowsAreRefusedWithTheirPlace(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "config")
	const text = `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cluster, err := kube.Open(kube.Config{Kubeconfig: file})
	if err != nil {
		t.Fatal(err)
	}
	windows := build.PlanStep{Stage: "test", Name: "unit", At: fault.Position{File: "f", Line: 3, Column: 5}, Spec: build.Spec{OS: "windows"}}
	problems := New(cluster, Config{}).Check(t.Context(), []build.PlanStep{windows, {Stage: "test", Name: "vet", Spec: build.Spec{OS: "linux"}}})
	if want := "f:3:5: test/unit: pods with os: windows are not supported: what runs beside a step needs linux"; problems.Error() != want {
		t.Errorf("%v, want %s", problems, want)
	}
}
