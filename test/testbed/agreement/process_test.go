//go:build services

package agreement_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/test/testbed/agreement"
)

func TestProcesses(t *testing.T) {
	t.Parallel()
	dir, home := t.TempDir(), t.TempDir()
	program, err := childtest.Program(t.Context(), "../../..", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	agreement.Write(t, dir, "golang")
	folder := filepath.Join(home, "results")
	run := exec.CommandContext(t.Context(), program, "run", "--runner", "process", "--results-dir", folder, "--build-id", "7")
	run.Dir, run.Env = dir, append(os.Environ(), "HOME="+home, "XDG_CACHE_HOME=")
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	agreement.Check(t, folder, false)
	agreement.CheckRaw(t, program, folder)
}
