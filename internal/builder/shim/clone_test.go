package shim_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	shimv1 "github.com/waybill-dev/waybill/api/shim/v1"
	"github.com/waybill-dev/waybill/internal/builder/shim"
)

// TestACloneOrItsReasonIsLeft for the container of the worker.
func TestACloneOrItsReasonIsLeft(t *testing.T) {
	t.Parallel()
	origin := t.TempDir()
	git := func(arguments ...string) string {
		t.Helper()
		c := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b"}, arguments...)...)
		c.Dir = origin
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "--quiet")
	git("commit", "--quiet", "--allow-empty", "-m", "one")
	commit := git("rev-parse", "HEAD")
	folder := filepath.Join(t.TempDir(), "clone")
	environment := map[string]string{shimv1.EnvCloneFolder: folder, shimv1.EnvCloneURL: "file://" + origin,
		shimv1.EnvCloneCommit: commit, shimv1.EnvCloneBranch: "main"}
	get := func(name string) string { return environment[name] }
	for range 2 { // the container may be started again
		if err := shim.Clone(t.Context(), get); err != nil {
			t.Fatal(err)
		}
		if head, err := os.ReadFile(filepath.Join(folder, ".git", "HEAD")); err != nil || string(head) != "ref: refs/heads/main\n" {
			t.Errorf("%q, %v", head, err)
		}
	}
	if _, err := os.Stat(folder + shimv1.CloneError); !os.IsNotExist(err) {
		t.Errorf("a reason is left: %v", err)
	}
	environment[shimv1.EnvCloneCommit] = strings.Repeat("ab", 20)
	if err := shim.Clone(t.Context(), get); err != nil {
		t.Fatal(err)
	}
	if reason, err := os.ReadFile(folder + shimv1.CloneError); err != nil || !strings.Contains(string(reason), "fetch commit abab") {
		t.Errorf("%q, %v", reason, err)
	}
	environment[shimv1.EnvCloneCommit] = commit
	if err := shim.Clone(t.Context(), get); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(folder + shimv1.CloneError); !os.IsNotExist(err) {
		t.Errorf("the reason of an earlier start is left: %v", err)
	}
	environment[shimv1.EnvCloneFolder] = "clone"
	if err := shim.Clone(t.Context(), get); err == nil {
		t.Error("a folder somewhere was accepted")
	}
}
