package cli

import (
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/cli/clitest"
)

// TestLintTakesAFolderOrAFile: like the other commands that check a file.
func TestLintTakesAFolderOrAFile(t *testing.T) {
	t.Parallel()
	f := clitest.NewFolder(t, map[string]string{"ci/.wharf-ci.yml": clitest.GreeterBuild, "ci/bad.yml": "build: 7\n"})
	for argument, want := range map[string]string{"ci": ".wharf-ci.yml is sound: 1 stage\n",
		"ci/.wharf-ci.yml": ".wharf-ci.yml is sound: 1 stage\n"} {
		if status := runLine(t.Context(), f.App, []string{"build", "lint", argument}); status != 0 {
			t.Errorf("%s: exit status %d", argument, status)
		}
		f.Want(t, want, "")
	}
	if status := runLine(t.Context(), f.App, []string{"build", "lint", "ci/bad.yml"}); status != 2 ||
		!strings.HasPrefix(f.Warned.String(), "ci/bad.yml:1:8: ") {
		t.Errorf("exit status %d, standard error %q", status, f.Warned.String())
	}
}
