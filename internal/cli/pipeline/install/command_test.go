package install

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/fault"
)

func TestInstallPrintsManifests(t *testing.T) {
	t.Parallel()
	f := clitest.NewFolder(t, nil)
	f.Version = "v1.4.2"
	flags := installFlags{print: true, oldService: "flux-system/pipeline-promotion"}
	flags.Namespace, flags.Frozen = "apps", true
	if err := runInstall(t.Context(), f.App, flags); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"frozen: true", `image: "ghcr.io/waybill-dev/waybill:v1.4.2"`, `namespace: "flux-system"`,
		"kind: CustomResourceDefinition"} {
		if !strings.Contains(f.Printed.String(), want) {
			t.Errorf("lacks %s", want)
		}
	}
	flags.oldService = "pipeline-promotion"
	if err := runInstall(t.Context(), f.App, flags); err == nil || !strings.Contains(err.Error(), "want NAMESPACE/NAME") {
		t.Errorf("got %v", err)
	}
}

func TestImageTagIsTheVersion(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{"v1.4.2": "v1.4.2", "development": "latest", "": "latest",
		"v0.0.0-2026+dirty": "latest"} {
		if got := imageTag(version); got != want {
			t.Errorf("%q: got %q, want %q", version, got, want)
		}
	}
}

func TestInstallNamesTheClusterThatItCannotReach(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(nil)
	server.Close() // nothing listens at its address from now on
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}],\n" +
		"clusters: [{name: c, cluster: {server: \"" + server.URL + "\"}}]}\n"
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := installFlags{kubeconfig: kubeconfig}
	flags.Namespace = "apps"
	err := runInstall(t.Context(), clitest.NewFolder(t, nil).App, flags)
	if fault.CodeOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "the cluster at "+server.URL+" cannot be reached") ||
		strings.Contains(err.Error(), "fieldManager") || !strings.Contains(fault.HintOf(err), "--kubeconfig") {
		t.Errorf("got %v, with the hint %q", err, fault.HintOf(err))
	}
}
