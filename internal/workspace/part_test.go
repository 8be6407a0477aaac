package workspace_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/workspace"
)

// TestRemovePartRemovesWorkTrees: their .git files are packed as folders, and are files.
func TestRemovePartRemovesWorkTrees(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root, map[string]string{"f": "1", "cache/g": "1"})
	git(t, root, "init", "-q", "-b", "main")
	git(t, root, "add", "f")
	git(t, root, "commit", "-q", "-m", "first")
	git(t, root, "worktree", "add", "-q", "-b", "topic", filepath.Join(root, "cache", "tree"))
	in := func(path string) bool { return path == "cache" || strings.HasPrefix(path, "cache/") }
	if err := workspace.RemovePart(root, in); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(root, "cache")); !os.IsNotExist(err) {
		t.Errorf("the folder is left: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(root, "f")); err != nil {
		t.Error(err)
	}
}
