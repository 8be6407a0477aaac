package git_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/git"
)

func TestTheTipOfABranchIsFound(t *testing.T) {
	t.Parallel()
	origin, first, second := upstream(t)
	origin.git("branch", "old", first)
	origin.git("update-ref", "refs/heads/refs/heads/old", second) // a pattern finds this one, too
	own := origin.ask("symbolic-ref", "--short", "HEAD")
	for branch, want := range map[string]git.Clone{"": {Branch: own, Commit: second}, "old": {Branch: "old", Commit: first}} {
		got, ok, err := git.Clone{URL: origin.root, Branch: branch}.AtTip(t.Context())
		if err != nil || !ok || got.Branch != want.Branch || got.Commit != want.Commit {
			t.Errorf("%q: %+v, %v, %v", branch, got, ok, err)
		}
	}
	if got, ok, err := (git.Clone{URL: origin.root, Branch: "none"}).AtTip(t.Context()); ok || err != nil {
		t.Errorf("%+v, %v, %v", got, ok, err)
	}
	for _, c := range []git.Clone{{URL: t.TempDir()}, {URL: "ext::sh -c true"}, {URL: origin.root, Branch: "--upload-pack=x"}, {URL: "-x"}} {
		if got, ok, err := c.AtTip(t.Context()); ok || err == nil {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

// TestARemoteThatTalksWithoutEnd does not fill the memory of the process that reads it.
func TestARemoteThatTalksWithoutEnd(t *testing.T) {
	dir := t.TempDir()
	const program = "#!/bin/sh\nhead -c 1000000 /dev/zero | tr '\\0' x >&2\necho fatal: gone >&2\nexit 128\n"
	if err := os.WriteFile(filepath.Join(dir, "git"), []byte(program), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	_, _, err := git.Clone{URL: "https://git.example.org/shop.git"}.AtTip(t.Context())
	if err == nil || len(err.Error()) > 20<<10 || !strings.HasSuffix(err.Error(), "fatal: gone") {
		t.Errorf("%.200v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "git"), []byte("#!/bin/sh\nexec yes\n"), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	_, _, err = git.Clone{URL: "https://git.example.org/shop.git"}.AtTip(t.Context())
	if err == nil || !strings.Contains(err.Error(), "git ls-remote prints more than 134217728 bytes") {
		t.Errorf("%.200v", err)
	}
}

// TestABranchThatGitCannotNameIsNotTaken of a server, which may answer anything: the commit is built without a
// branch.
func TestABranchThatGitCannotNameIsNotTaken(t *testing.T) {
	dir, hash := t.TempDir(), strings.Repeat("3f", 20)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for target, want := range map[string]string{"main": "main", "-x": "", "a..b": "", "a\x1b[31mb": "", strings.Repeat("n", 300): ""} {
		program := "#!/bin/sh\nprintf 'ref: refs/heads/" + target + "\\tHEAD\\n" + hash + "\\tHEAD\\n'\n"
		if err := os.WriteFile(filepath.Join(dir, "git"), []byte(program), 0o700); err != nil { //nolint:gosec // it is run
			t.Fatal(err)
		}
		at, ok, err := git.Clone{URL: "https://git.example.org/shop.git"}.AtTip(t.Context())
		if err != nil || !ok || at.Branch != want || at.Commit != hash {
			t.Errorf("%q: %+v, %v, %v", target, at, ok, err)
		}
	}
}
