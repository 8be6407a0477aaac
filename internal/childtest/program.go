package childtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// ProgramVariable names the environment variable with the path of the waybill command in a run that has built it once for
// several packages.
const ProgramVariable = "WAYBILL_TEST_PROGRAM"

// Program returns the path of the waybill command: the one that ProgramVariable names, or one that it builds in folder from the
// module at root.
func Program(ctx context.Context, root, folder string) (string, error) {
	if path := os.Getenv(ProgramVariable); path != "" {
		return path, nil
	}
	path := filepath.Join(folder, "waybill")
	command := exec.CommandContext(ctx, "go", "build", "-o", path, "./cmd/waybill")
	command.Dir, command.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build waybill: %w\n%s", err, out)
	}
	return path, nil
}
