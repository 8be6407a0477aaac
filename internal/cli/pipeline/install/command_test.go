package install

import (
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/cli/clitest"
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
