package git_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/git"
)

// clone returns a clone of the repository, made with further arguments.
func (f folder) clone(arguments ...string) folder {
	f.t.Helper()
	root := filepath.Join(f.t.TempDir(), "clone")
	f.git(append(append([]string{"-c", "protocol.file.allow=always", "clone", "-q"}, arguments...), "file://"+f.root, root)...)
	return folder{t: f.t, root: root, dir: filepath.Join(root, "service")}
}

// withSubmodule returns a repository with a submodule at service/lib.
func withSubmodule(t *testing.T) folder {
	f, inner := newFolder(t), newFolder(t)
	inner.write("lib.go", "package lib")
	inner.commit("a library")
	f.write("service/main.go", "package main")
	f.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner.root, "service/lib")
	f.commit("serve")
	return f
}

func TestASubmoduleThatIsNotCheckedOutHasNoFiles(t *testing.T) {
	t.Parallel()
	f := withSubmodule(t)
	whole, part := f.tree(), f.clone()
	got := part.tree()
	if diff := cmp.Diff([]string{"main.go"}, got.Files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if len(got.Notes) != 1 || !strings.HasPrefix(got.Notes[0], "the submodule lib is not checked out") {
		t.Errorf("notes %q", got.Notes)
	}
	if got.Commit.Hash != whole.Commit.Hash || !strings.HasPrefix(got.Label, whole.Label+"+") {
		t.Errorf("without the files of its submodule %s is %s", whole.Label, got.Label)
	}
	part.write("service/lib/own.go", "package lib") // git does not look there either
	if again := part.tree(); again.Label != got.Label {
		t.Errorf("with a file of its own, %s is %s", got.Label, again.Label)
	}
	if tracked, err := git.Open(part.dir).Tracked(t.Context()); err != nil || !cmp.Equal(tracked, []string{"main.go"}) {
		t.Errorf("tracked: %v, %v", tracked, err)
	}
	if ignored, err := git.Open(part.dir).IgnoredPaths(t.Context()); err != nil || len(ignored) > 0 {
		t.Errorf("ignored: %v, %v", ignored, err)
	}
	for _, damage := range []func() error{
		func() error { return os.Mkdir(filepath.Join(part.dir, "lib", ".git"), 0o700) },
		func() error { return os.Remove(filepath.Join(part.dir, "lib", ".git")) },
		func() error {
			return os.WriteFile(filepath.Join(part.dir, "lib", ".git"), []byte("gitdir: nowhere\n"), 0o600)
		},
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		if again := part.tree(); again.Label != got.Label {
			t.Errorf("with a .git that leads to nothing, %s is %s", got.Label, again.Label)
		}
	}
}

// TestWhatStandsForContentIsNotThatOfTheCommit: without Git LFS or the key of git-crypt a checkout has git's stored
// form of a file.
func TestWhatStandsForContentIsNotThatOfTheCommit(t *testing.T) {
	t.Parallel()
	const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 3\n"
	f := newFolder(t)
	f.write("service/.gitattributes", "*.png filter=lfs\n*.key filter=git-crypt-ops\n")
	f.write("service/doc.txt", pointer)
	f.write("service/migrated.png", "PNG")
	f.commit("serve")
	if tree := f.tree(); tree.Label != tree.Commit.Short || len(tree.Notes) > 0 {
		t.Errorf("whole content is %s of %s, with %q", tree.Label, tree.Commit.Short, tree.Notes)
	}
	f.write("service/a.png", pointer)
	f.write("service/b.png", pointer)
	f.write("service/tls.key", "\x00GITCRYPT\x00secret")
	f.commit("draw")
	tree := f.tree()
	want := []string{
		"a.png (and 1 more) is a pointer of Git LFS and not its content: git lfs pull",
		"tls.key is encrypted by git-crypt and not its content: git-crypt unlock",
	}
	if diff := cmp.Diff(want, tree.Notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(tree.Label, tree.Commit.Short+"+") {
		t.Errorf("%s is labeled %s", tree.Commit.Short, tree.Label)
	}
}

func TestARepositoryThatGitRefusesIsNotAPlainFolder(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(t *testing.T, f folder)
		want   string
	}{
		"an empty HEAD": {func(_ *testing.T, f folder) { f.write(".git/HEAD", "") }, "not a git repository"},
		"an unknown format": {func(_ *testing.T, f folder) { f.git("config", "core.repositoryFormatVersion", "77") },
			"Expected git repo version <= 1, found 77"},
		"a damaged .git": {func(t *testing.T, f folder) { replace(t, filepath.Join(f.root, ".git"), "nonsense") }, "invalid gitfile format"},
		"a bad ~/.gitconfig": {func(t *testing.T, _ folder) {
			home := t.TempDir()
			replace(t, filepath.Join(home, ".gitconfig"), "[user\n")
			t.Setenv("HOME", home)
		}, "bad config line 1"},
		"another owner": {func(t *testing.T, _ folder) { t.Setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1") }, "dubious ownership"},
		"no git":        {func(t *testing.T, _ folder) { t.Setenv("PATH", t.TempDir()) }, "executable file not found"},
		"another work tree": {func(_ *testing.T, f folder) {
			f.git("config", "core.worktree", t.TempDir())
		}, "in no work tree of git"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t)
			f.write(".gitignore", ".env\n")
			f.write("service/main.go", "package main")
			f.write("service/.env", "TOKEN=x")
			f.commit("serve")
			c.damage(t, f)
			folder := git.Open(f.dir)
			_, err := folder.Tree(t.Context())
			_, headErr := folder.Head(t.Context())
			_, lastErr := folder.Last(t.Context())
			_, ignoredErr := folder.Ignored(t.Context(), ".env")
			_, pathsErr := folder.IgnoredPaths(t.Context())
			for _, err := range []error{err, headErr, lastErr, ignoredErr, pathsErr} {
				if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v, want invalid: …%s…", err, c.want)
				}
			}
		})
	}
}

// replace puts a file in the place of the existing one.
func replace(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.RemoveAll(path), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func TestTheIndexDoesNotHideChanges(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.write("service/cfg", "1")
	f.write("service/main.go", "package main")
	f.commit("serve")
	clean := f.tree().Label
	for _, flag := range []string{"skip-worktree", "assume-unchanged"} {
		f.write("service/cfg", "1")
		f.git("update-index", "--"+flag, "service/cfg")
		if got := f.tree().Label; got != clean {
			t.Errorf("%s changed the label to %s", flag, got)
		}
		f.write("service/cfg", "2")
		hidden := f.tree().Label
		f.git("update-index", "--no-"+flag, "service/cfg")
		if shown := f.tree().Label; hidden != shown || hidden == clean {
			t.Errorf("with %s the changed folder is %s, without %s", flag, hidden, shown)
		}
	}
	f.git("add", ".")
	f.write("service/cfg", "1")
	if got := f.tree().Label; got != clean {
		t.Errorf("the files are those of HEAD and the index is ahead: %s, want %s", got, clean)
	}
	f.git("config", "core.fileMode", "false")
	if err := os.Chmod(filepath.Join(f.dir, "cfg"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := f.tree().Label; got == clean {
		t.Error("an executable file has the label of one that is not")
	}
}

func TestContentThatEveryCheckoutConvertsIsThatOfTheCommit(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.write("service/.gitattributes", "*.bat text eol=crlf\n*.sh text\n")
	f.write("service/run.bat", "a\r\nb\r\n")
	f.write("service/run.sh", "a\nb\n")
	f.commit("serve")
	if got := f.tree(); got.Label != got.Commit.Short {
		t.Errorf("the label is %s", got.Label)
	}
	f.write("service/run.sh", "a\r\nb\r\n") // what only core.eol or core.autocrlf of one user does
	if got := f.tree(); got.Label == got.Commit.Short {
		t.Errorf("other line ends have the label %s", got.Label)
	}
	f.write("service/run.sh", "a\nb\n")
	f.write("service/run.bat", "a\r\nc\r\n")
	if got := f.tree(); got.Label == got.Commit.Short {
		t.Errorf("a changed file has the label %s", got.Label)
	}
}

func TestWhatIsBehindALinkIsNoPart(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.write("service/d/passwd", "own")
	f.write("service/f", "a file")
	f.commit("serve")
	if err := errors.Join(os.RemoveAll(filepath.Join(f.dir, "d")), os.Symlink("/etc", filepath.Join(f.dir, "d")),
		os.Remove(filepath.Join(f.dir, "f"))); err != nil {
		t.Fatal(err)
	}
	f.write("service/f/inner", "its folder")
	got := f.tree()
	if diff := cmp.Diff([]string{"d", "f/inner"}, got.Files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if err := errors.Join(os.Remove(filepath.Join(f.dir, "d")), os.WriteFile(filepath.Join(f.dir, "d"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"d", "f/inner"}, f.tree().Files); diff != "" {
		t.Errorf("a file in the place of a folder (-want +got):\n%s", diff)
	}
}

func TestPipesAndSocketsAreLeftOutWithAWord(t *testing.T) {
	t.Parallel()
	plain := t.TempDir()
	f := newFolder(t)
	f.write("service/main.go", "package main")
	f.write("service/tracked", "x")
	f.commit("serve")
	for _, dir := range []string{plain, f.dir} {
		replace(t, filepath.Join(dir, "main.go"), "package main")
		_ = os.Remove(filepath.Join(dir, "tracked"))
		if err := syscall.Mkfifo(filepath.Join(dir, "tracked"), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := git.Open(dir).Tree(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"main.go"}, got.Files); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"tracked is left out: it is a pipe"}, got.Notes); diff != "" {
			t.Errorf("notes (-want +got):\n%s", diff)
		}
	}
}

func TestARepositoryInAPlainFolderIsListedByItsRules(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.write("service/main.go", "package main")
	f.write("service/.gitignore", ".env\n")
	f.write("service/.env", "TOKEN=x")
	f.commit("serve")
	outer := t.TempDir()
	if err := os.Rename(f.root, filepath.Join(outer, "shop")); err != nil {
		t.Fatal(err)
	}
	replace(t, filepath.Join(outer, "waybill.yaml"), "")
	replace(t, filepath.Join(outer, "shop", "service", "main.go"), "package main")
	replace(t, filepath.Join(outer, "left"), "")
	if err := os.Mkdir(filepath.Join(outer, "copied"), 0o700); err != nil {
		t.Fatal(err)
	}
	replace(t, filepath.Join(outer, "copied", ".git"), "gitdir: nowhere\n") // as of a submodule in an image
	replace(t, filepath.Join(outer, "copied", "a"), "")
	got, err := git.Open(outer).Tree(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"copied/a", "left", "shop/service/.gitignore", "shop/service/main.go", "waybill.yaml"},
		got.Files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	for name, want := range map[string]bool{"shop/service/.env": true, "shop/service/main.go": false, "left": false} {
		if ignored, err := git.Open(outer).Ignored(t.Context(), name); ignored != want || err != nil {
			t.Errorf("%s is ignored: %t, %v", name, ignored, err)
		}
	}
}

func TestAShallowCloneSaysThatItsHistoryEnds(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.write("service/main.go", "package main")
	f.commit("serve")
	f.write("other", "x")
	f.commit("other")
	got := f.clone("--depth=1").tree()
	if len(got.Notes) != 1 || !strings.Contains(got.Notes[0], "git fetch --unshallow") {
		t.Errorf("notes %q", got.Notes)
	}
	if got := f.clone().tree(); len(got.Notes) != 0 || got.Label != f.tree().Label {
		t.Errorf("a whole clone: %+v", got)
	}
}
