//go:build services

package step

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/childtest"
)

// busyboxShell is the shell that runs the host program where every tool is busybox's own.
var busyboxShell = map[string]func(t *testing.T) string{"busybox": busyboxPath}

// busyboxPath returns a PATH where every tool is busybox's own; of flock, which some builds lack, the system's.
func busyboxPath(t *testing.T) string {
	t.Helper()
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal("the host program is tested under busybox: install busybox-static")
	}
	dir := t.TempDir()
	applets, err := childtest.Command(t, busybox, "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(string(applets)) {
		if err := os.Symlink(busybox, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains("\n"+string(applets), "\nflock\n") {
		flock, err := exec.LookPath("flock")
		if err != nil {
			t.Fatal("the host program needs flock: install util-linux")
		}
		if err := os.Symlink(flock, filepath.Join(dir, "flock")); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
