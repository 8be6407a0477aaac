package git_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/git"
)

// TestABoundOfMemoryHoldsForWhatGitStarts, which keeps the branches of a server.
func TestABoundOfMemoryHoldsForWhatGitStarts(t *testing.T) {
	dir := t.TempDir()
	const program = "#!/bin/sh\nuntil [ \"$(sh -c 'ulimit -v')\" = 2097152 ]; do :; done\necho it has a bound >&2\nexit 128\n"
	if err := os.WriteFile(filepath.Join(dir, "git"), []byte(program), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	if _, _, err := (git.Clone{URL: "https://git.example.org/shop.git"}).AtTip(t.Context()); err == nil ||
		!strings.HasSuffix(err.Error(), "it has a bound") {
		t.Errorf("%.200v", err)
	}
}
