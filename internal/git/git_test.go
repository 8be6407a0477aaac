package git_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/git"
)

// folder is a project in a subfolder of a fresh repository.
type folder struct {
	t    *testing.T
	root string
	dir  string
}

func newFolder(t *testing.T) folder {
	t.Helper()
	root := t.TempDir()
	f := folder{t: t, root: root, dir: filepath.Join(root, "service")}
	f.git("init", "-q", "-b", "main")
	f.git("config", "user.name", "Ana")
	f.git("config", "user.email", "ana@example.net")
	return f
}

func (f folder) git(arguments ...string) {
	f.t.Helper()
	c := exec.Command("git", arguments...)
	c.Dir = f.root
	if out, err := c.CombinedOutput(); err != nil {
		f.t.Fatalf("git %v: %v\n%s", arguments, err, out)
	}
}

func (f folder) write(name, content string) {
	f.t.Helper()
	path := filepath.Join(f.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

func (f folder) commit(message string) {
	f.t.Helper()
	f.git("add", "-A")
	f.git("commit", "-q", "-m", message)
}

func (f folder) tree(exclude ...string) git.Tree {
	f.t.Helper()
	tree, err := git.Open(f.dir, exclude...).Tree(context.Background())
	if err != nil {
		f.t.Fatal(err)
	}
	return tree
}

func TestLabelIsTheLastCommitThatTouchedTheFolder(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.write("service/main.go", "package main")
	f.commit("serve")
	first := f.tree()
	if first.Label != first.Commit.Short || first.Commit.Subject != "serve" {
		t.Errorf("label %q, commit %+v", first.Label, first.Commit)
	}
	f.write("elsewhere.txt", "x")
	f.commit("something else")
	if again := f.tree(); again.Label != first.Label {
		t.Errorf("a commit outside the folder changed the label from %s to %s", first.Label, again.Label)
	}
	f.write("service/main.go", "package main // v2")
	f.commit("serve more")
	if again := f.tree(); again.Label == first.Label {
		t.Errorf("a commit inside the folder kept the label %s", first.Label)
	}
}

func TestUncommittedChangesAddADigest(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.write("service/main.go", "package main")
	f.write("service/.gitignore", "dist/\n")
	f.commit("serve")
	clean := f.tree().Label
	f.write("service/dist/out", "ignored")
	if got := f.tree().Label; got != clean {
		t.Errorf("an ignored file changed the label to %s", got)
	}
	f.write("service/new.go", "package main")
	dirty := f.tree().Label
	if !regexp.MustCompile(`^` + clean + `\+[0-9a-f]{6}$`).MatchString(dirty) {
		t.Errorf("an untracked file gives label %q, want %s+ and six digits", dirty, clean)
	}
	f.write("service/new.go", "package main // changed")
	if got := f.tree().Label; got == dirty {
		t.Errorf("another content kept the label %s", got)
	}
	f.write("service/new.go", "package main")
	if got := f.tree().Label; got != dirty {
		t.Errorf("the same content got %s, then %s", dirty, got)
	}
}

func TestExcludedPathsAreNoPart(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.write("service/main.go", "package main")
	f.commit("serve")
	clean := f.tree().Label
	f.write("service/.waybill/server.yaml", "server: {}")
	home := filepath.Join(f.dir, ".waybill")
	got := f.tree(home)
	if got.Label != clean {
		t.Errorf("the home changed the label to %s", got.Label)
	}
	if diff := cmp.Diff([]string{"main.go"}, got.Files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestDeletedFilesChangeTheLabelAndAreNotListed(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.write("service/main.go", "package main")
	f.write("service/old.go", "package main")
	f.commit("serve")
	clean := f.tree().Label
	if err := os.Remove(filepath.Join(f.dir, "old.go")); err != nil {
		t.Fatal(err)
	}
	got := f.tree()
	if got.Label == clean {
		t.Errorf("a deleted file kept the label %s", clean)
	}
	if diff := cmp.Diff([]string{"main.go"}, got.Files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestWithoutGitTheLabelIsADigest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "run.sh"), []byte("#!/bin/sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	folder := git.Open(dir)
	tree, err := folder.Tree(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^[0-9a-f]{12}$`).MatchString(tree.Label) {
		t.Errorf("label %q, want twelve hex digits", tree.Label)
	}
	if _, err := folder.Last(t.Context()); !errors.Is(err, git.ErrNoCommit) {
		t.Errorf("Last says %v, want ErrNoCommit", err)
	}
	if err := os.Chmod(filepath.Join(dir, "run.sh"), 0o644); err != nil {
		t.Fatal(err)
	}
	again, err := folder.Tree(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if again.Label == tree.Label {
		t.Error("the executable bit is not part of the label")
	}
}

func TestPrecedesIsProperAncestry(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.write("service/main.go", "1")
	f.commit("one")
	one := f.tree().Commit.Hash
	f.write("service/main.go", "2")
	f.commit("two")
	two := f.tree().Commit.Hash
	repository, ctx := git.Open(f.dir), t.Context()
	for _, c := range []struct {
		older, newer string
		want         bool
	}{{one, two, true}, {two, one, false}, {one, one, false}, {one, "0000000000000000000000000000000000000000", false}, {"", two, false}} {
		if got := repository.Precedes(ctx, c.older, c.newer); got != c.want {
			t.Errorf("Precedes(%.7s, %.7s) = %v, want %v", c.older, c.newer, got, c.want)
		}
	}
}

func TestAFailureOfGitDoesNotMeanThatAFileIsKept(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.write(".gitignore", "*.out\n")
	f.write("service/main.go", "package main")
	f.commit("first")
	folder := git.Open(f.dir)
	for name, want := range map[string]bool{"main.go": false, "a.out": true} {
		if got, err := folder.Ignored(t.Context(), name); got != want || err != nil {
			t.Errorf("%s is ignored: %t, %v; want %t", name, got, err, want)
		}
	}
	if got, err := git.Open(t.TempDir()).Ignored(t.Context(), "a.out"); got || err != nil {
		t.Errorf("without a repository: %t, %v", got, err)
	}
	f.write(".git/index", "damaged")
	if _, err := folder.Ignored(t.Context(), "main.go"); err == nil || !strings.Contains(err.Error(), "see whether git ignores") {
		t.Errorf("with a damaged index: %v", err)
	}
}
