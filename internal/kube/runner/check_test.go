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
	named := func(account, kind string) build.PlanStep {
		return build.PlanStep{Stage: "test", Name: account, Type: kind, At: fault.Position{File: "f", Line: 1, Column: 1},
			Spec: build.Spec{OS: "windows", ServiceAccount: account}}
	}
	accounts := New(cluster, Config{Accounts: []string{"default", "deployer"}}).Check(t.Context(),
		[]build.PlanStep{named("default", "container"), named("deployer", "container"), named("", "container"),
			named("wharf-cmd", "kubectl"), named("waybill-worker", "container")})
	var refused []string
	for _, p := range accounts {
		if p.Code == "account-refused" {
			refused = append(refused, fault.Problems{p}.Error())
		}
	}
	if len(refused) != 1 ||
		refused[0] != `f:1:1: test/waybill-worker: steps may not run as the service account "waybill-worker", only as default, deployer` {
		t.Errorf("%q", refused)
	}
	windows := build.PlanStep{Stage: "test", Name: "unit", At: fault.Position{File: "f", Line: 3, Column: 5}, Spec: build.Spec{OS: "windows"}}
	problems := New(cluster, Config{}).Check(t.Context(),
		[]build.PlanStep{windows, {Stage: "test", Name: "vet", Spec: build.Spec{OS: "linux"}}})
	if want := "f:3:5: test/unit: pods with os: windows are not supported: what runs beside a step needs linux"; problems.Error() != want {
		t.Errorf("%v, want %s", problems, want)
	}
}
