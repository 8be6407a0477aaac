package git_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/git"
)

func TestOneFileOfACommitIsRead(t *testing.T) {
	t.Parallel()
	origin, first, second := upstream(t)
	if err := os.MkdirAll(filepath.Join(origin.root, "app"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"app/link.txt": "../a.txt", "outside": "../../../../etc/passwd"} {
		if err := os.Symlink(target, filepath.Join(origin.root, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(origin.root, "large.txt"), []byte(strings.Repeat("x", 101)), 0o600); err != nil {
		t.Fatal(err)
	}
	origin.git("checkout", "-q", "-b", "topic")
	origin.git("add", ".")
	origin.git("commit", "-q", "-m", "three")
	origin.git("checkout", "-q", "-")
	for _, allow := range []string{"true", "false"} {
		for _, name := range []string{"uploadpack.allowAnySHA1InWant", "uploadpack.allowReachableSHA1InWant",
			"uploadpack.allowTipSHA1InWant", "uploadpack.allowFilter"} {
			origin.git("config", name, allow)
		}
		for _, c := range []struct {
			branch, commit, path string
			want                 string // "": it is missing
		}{
			{path: "a.txt", want: "two"},
			{path: "app/link.txt"},
			{branch: "topic", path: "app/link.txt", want: "two"},
			{branch: "topic", commit: second, path: "app/link.txt"},
			{commit: second, path: "a.txt", want: "two"},
			{commit: first, path: "a.txt"},
			{branch: "topic", path: "app"},
			{branch: "topic", path: "outside"},
			{branch: "topic", path: "large.txt"},
		} {
			got, ok, err := git.Clone{URL: "file://" + origin.root, Branch: c.branch, Commit: c.commit}.File(t.Context(), c.path, 100)
			if err != nil || string(got) != c.want || ok != (c.want != "") {
				t.Errorf("allowed %s, %+v: %q, %v, %v", allow, c, got, ok, err)
			}
		}
	}
}

func TestAFileOfARepositoryThatCannotBeAskedIsAnError(t *testing.T) {
	t.Parallel()
	origin, _, _ := upstream(t)
	for _, c := range []struct {
		git.Clone
		path string
	}{
		{git.Clone{URL: t.TempDir()}, "a.txt"}, {git.Clone{URL: "ext::sh -c true"}, "a.txt"},
		{git.Clone{URL: origin.root, Branch: "none"}, "a.txt"},
		{git.Clone{URL: origin.root, Commit: "--upload-pack=x"}, "a.txt"},
		{git.Clone{URL: origin.root, Commit: strings.Repeat("1", 40)}, "a.txt"},
		{git.Clone{URL: origin.root}, "a.txt\nHEAD:b"},
	} {
		if got, ok, err := c.File(t.Context(), c.path, 100); ok || err == nil {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
