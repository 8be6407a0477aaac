package cmdline_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/fault"
)

// TestAHomeOfAnotherUserIsRefused gives files away as root does; another user can only see that its own are taken.
func TestAHomeOfAnotherUserIsRefused(t *testing.T) {
	t.Parallel()
	for _, foreign := range []string{"waybill.yaml", ".waybill", ".waybill/server.yaml", "."} {
		dir := t.TempDir()
		below := filepath.Join(dir, "some", "folder")
		for _, folder := range []string{below, filepath.Join(dir, ".waybill")} {
			if err := os.MkdirAll(folder, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"waybill.yaml", ".waybill/server.yaml"} {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		state := t.TempDir()
		a := assembly.Place{Dir: below, Environment: func(name string) string { return map[string]string{"XDG_STATE_HOME": state}[name] }}
		if err := a.Accept(a.HomeOf(below)); err != nil {
			t.Fatal(err)
		}
		if err := a.Trust(filepath.Join(dir, foreign)); err != nil {
			t.Errorf("%s of one's own: %v", foreign, err)
		}
		if os.Getuid() != 0 {
			continue // only root can give a file away
		}
		if err := os.Lchown(filepath.Join(dir, foreign), 12345, 12345); err != nil {
			t.Fatal(err)
		}
		if _, _, err := a.Config(a.HomeOf(below)); !fault.Is(err, fault.Invalid) ||
			!strings.Contains(err.Error(), filepath.Base(filepath.Join(dir, foreign))+" belongs to another user (12345)") {
			t.Errorf("%s of another user: %v, want it refused", foreign, err)
		}
		if _, err := (&cmdline.App{Place: a}).Project(nil); (foreign == "waybill.yaml" || foreign == ".") &&
			(err == nil || !strings.Contains(err.Error(), "belongs to another user")) {
			t.Errorf("a project of another user: %v, want it refused", err)
		}
	}
}
