package kube_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/kube"
)

const config = `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:6443"}}]
users: [{name: u, user: {token: t}}]
contexts:
- {name: plain, context: {cluster: c, user: u}}
- {name: flows, context: {cluster: c, user: u, namespace: flows}}
current-context: plain
`

func TestNamespaceIsTheConfiguredOneThenTheContexts(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]kube.Config{
		"default": {Kubeconfig: file},
		"flows":   {Kubeconfig: file, Context: "flows"},
		"mine":    {Kubeconfig: file, Context: "flows", Namespace: "mine"},
	} {
		cluster, err := kube.Open(c)
		if err != nil {
			t.Fatal(err)
		}
		if cluster.Namespace != want {
			t.Errorf("namespace %q, want %q", cluster.Namespace, want)
		}
	}
}

func TestRequestsAreBoundedIfARateIsGiven(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for rate, want := range map[int]float32{0: -1, 200: 200} {
		cluster, err := kube.Open(kube.Config{Kubeconfig: file, Rate: rate})
		if err != nil {
			t.Fatal(err)
		}
		if got := cluster.Config().QPS; got != want {
			t.Errorf("rate %d: got %v requests a second, want %v", rate, got, want)
		}
	}
}

func TestWhatNamesNoClusterIsInvalid(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	missing := filepath.Join(t.TempDir(), "missing")
	for name, c := range map[string]kube.Config{"no file": {Kubeconfig: missing}, "no cluster": {}} {
		if _, err := kube.Open(c); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: got %v, want invalid", name, err)
		}
	}
}
