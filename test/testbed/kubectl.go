package testbed

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/test/testbed/binary"
)

// Kubectl returns a folder for PATH with the program kubectl, of the version of the clusters.
func Kubectl(t testing.TB) (folder string) {
	t.Helper()
	folder = t.TempDir()
	quoted := "'" + strings.ReplaceAll(program(t, binary.Kube()), "'", `'\''`) + "'"
	script := "#!/bin/sh\nexec " + quoted + " kubectl \"$@\"\n"
	if err := os.WriteFile(filepath.Join(folder, "kubectl"), []byte(script), 0o755); err != nil { //nolint:gosec // a program
		t.Fatalf("testbed: make kubectl: %v", err)
	}
	return folder
}
