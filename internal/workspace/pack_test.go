package workspace_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/waybill-dev/waybill/internal/workspace"
)

// unpacked extracts a snapshot file and returns the folder.
func unpacked(t *testing.T, path, digest string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	to := filepath.Join(t.TempDir(), "copy")
	if err := workspace.Extract(t.Context(), f, to, digest); err != nil {
		t.Fatal(err)
	}
	return to
}

// write writes files below root, by slash-separated path.
func write(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestASnapshotOfManyFrames packs more than one frame of zstd, and files on both sides of the size up to which they are read ahead.
func TestASnapshotOfManyFrames(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	files := map[string]string{"empty": "", "small": "small"}
	for i, size := range []int{128<<10 - 1, 128 << 10, 128<<10 + 1, 5 << 20} {
		files[string(rune('a'+i))] = strings.Repeat(string(rune('a'+i)), size)
	}
	write(t, root, files)
	path := filepath.Join(t.TempDir(), "w.tar.zst")
	packed, err := workspace.PackFile(t.Context(), path, root, workspace.Selection{})
	if err != nil {
		t.Fatal(err)
	}
	to := unpacked(t, path, packed.Digest)
	for name, content := range files {
		if got, err := os.ReadFile(filepath.Join(to, name)); err != nil || string(got) != content {
			t.Errorf("%s: %d bytes, want %d (%v)", name, len(got), len(content), err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() != packed.Size || info.Mode().Perm() != 0o600 {
		t.Errorf("%v: %v, %v; want %d bytes and mode 0600", err, info.Size(), info.Mode(), packed.Size)
	}
	f, _ := os.ReadFile(path)
	plain, _ := zstd.NewReader(bytes.NewReader(f))
	defer plain.Close()
	if n, err := io.Copy(io.Discard, plain); err != nil || n < 5<<20 {
		t.Errorf("%d bytes, %v", n, err)
	}
}

func TestPackReadsOnceMoreWhatBecameShorter(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	large := filepath.Join(root, "large")
	write(t, root, map[string]string{"large": strings.Repeat("x", 1<<20)})
	path, times := filepath.Join(t.TempDir(), "w.tar.zst"), 0
	shrink := func(size int64) func(string) {
		return func(name string) {
			if name == "large" {
				times++
				_ = os.Truncate(large, size-int64(times))
			}
		}
	}
	once := func(name string) {
		if times == 0 {
			shrink(200 << 10)(name)
		}
	}
	packed, err := workspace.PackWhile(t.Context(), path, root, once)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(unpacked(t, path, packed.Digest), "large")); err != nil || info.Size() != 200<<10-1 {
		t.Errorf("%v, want the size after it became shorter: %v", info, err)
	}
	_, err = workspace.PackWhile(t.Context(), path, root, shrink(190<<10))
	if err == nil || !strings.Contains(err.Error(), "pack large: it became shorter while it was read") {
		t.Errorf("%v, want the name of the file", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a snapshot that is not whole was left")
	}
	const shorter = "/sys/class/net/lo/mtu" // has fewer bytes than its size says
	if _, err := os.Stat(shorter); err == nil {
		if err := workspace.ReadAt(t.Context(), shorter); err == nil || !strings.Contains(err.Error(), "pack file: it became shorter") {
			t.Errorf("%v, want that the file is shorter than its size", err)
		}
	}
}

// TestPackEndsWhenItCannotWrite: at once, though it would read for days, and with one error.
func TestPackEndsWhenItCannotWrite(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root, map[string]string{"large": ""})
	if err := os.Truncate(filepath.Join(root, "large"), 1<<42); err != nil {
		t.Fatal(err)
	}
	full := errors.New("the disk is full")
	_, err := workspace.PackAll(t.Context(), failing{full}, root, workspace.Selection{})
	if !errors.Is(err, full) || strings.Count(err.Error(), full.Error()) != 1 {
		t.Errorf("got %v", err)
	}
}

// failing is a writer that fails.
type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestSelectionsLeaveFilesOut(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root, map[string]string{".git/HEAD": "ref", "a/b/tracked": "", "a/other": "", "node/x/y": "", "top": "",
		"in/.git/HEAD": "ref", "in/f": ""})
	for name, c := range map[string]struct {
		selected workspace.Selection
		want     []string
	}{
		"only": {workspace.Selection{Only: map[string]bool{"a/b/tracked": true, "in/f": true}},
			[]string{".git", ".git/HEAD", "a", "a/b", "a/b/tracked", "in", "in/.git", "in/.git/HEAD", "in/f"}},
		"leave": {workspace.Selection{Leave: map[string]bool{"node": true, "top": true, "in": true}},
			[]string{".git", ".git/HEAD", "a", "a/b", "a/b/tracked", "a/other"}},
	} {
		to := filepath.Join(t.TempDir(), "copy")
		if _, err := workspace.Copy(t.Context(), root, to, c.selected); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, line := range describe(t, to) {
			got = append(got, strings.Fields(line)[0])
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// git runs git in a folder, without the configuration of the user.
func git(t *testing.T, dir string, arguments ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=Ana", "-c",
		"user.email=ana@example.net", "-c", "protocol.file.allow=always"}, arguments...)...)
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CONFIG_COUNT=1",
		"GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", arguments, err, out)
	}
	return string(out)
}

func TestAGitFileBecomesARepository(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	inner, outer := filepath.Join(base, "inner"), filepath.Join(base, "outer")
	write(t, base, map[string]string{"inner/i": "1", "outer/o": "1"})
	for _, dir := range []string{inner, outer} {
		git(t, dir, "init", "-q", "-b", "main")
		git(t, dir, "add", ".")
		git(t, dir, "commit", "-q", "-m", "first")
	}
	git(t, outer, "submodule", "--quiet", "add", inner, "sub")
	git(t, outer, "commit", "-q", "-m", "second")
	tree := filepath.Join(base, "tree")
	git(t, outer, "worktree", "add", "-q", "-b", "topic", tree)
	git(t, tree, "submodule", "--quiet", "update", "--init")
	write(t, tree, map[string]string{"staged": "1", "sub/staged": "1", "untracked": "1"})
	git(t, tree, "add", "staged")
	git(t, filepath.Join(tree, "sub"), "add", "staged")

	path := filepath.Join(base, "w.tar.zst")
	packed, err := workspace.PackFile(t.Context(), path, tree, workspace.Selection{})
	if err != nil || len(packed.Warnings) > 0 {
		t.Fatal(packed.Warnings, err)
	}
	copied := filepath.Join(base, "copied")
	if _, err := workspace.Copy(t.Context(), tree, copied, workspace.Selection{}); err != nil {
		t.Fatal(err)
	}
	ask := [][]string{{"status", "--porcelain", "--branch"}, {"rev-parse", "HEAD"}, {"log", "--oneline"},
		{"ls-files", "--stage"}, {"symbolic-ref", "-q", "HEAD"}}
	want := make([]string, len(ask))
	for i, question := range ask {
		want[i] = git(t, tree, question...)
	}
	wantSub := git(t, filepath.Join(tree, "sub"), "status", "--porcelain")
	extracted := unpacked(t, path, packed.Digest)
	if err := os.Rename(outer, outer+"-gone"); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{extracted, copied} {
		for i, question := range ask {
			if diff := cmp.Diff(want[i], git(t, dir, question...)); diff != "" {
				t.Errorf("git %s: %s", question, diff)
			}
		}
		if diff := cmp.Diff(wantSub, git(t, filepath.Join(dir, "sub"), "status", "--porcelain")); diff != "" {
			t.Errorf("submodule: %s", diff)
		}
		git(t, dir, "fsck")
		git(t, dir, "commit", "-q", "-m", "works")
	}
}

// TestAGitFileTakesNoOtherRepository has a .git file name a repository that does not know it, as a checkout from elsewhere may.
func TestAGitFileTakesNoOtherRepository(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	private, tree := filepath.Join(base, "private"), filepath.Join(base, "tree")
	write(t, base, map[string]string{"private/secret": "1", "tree/f": "1", "tree/.git": "gitdir: " + filepath.Join(private, ".git") + "\n",
		"tree/empty/.git": "", "tree/other/.git": "nothing", "tree/long/.git": "gitdir: " + strings.Repeat("x", 1<<20)})
	git(t, private, "init", "-q", "-b", "main")
	to := filepath.Join(base, "copy")
	warnings, err := workspace.Copy(t.Context(), tree, to, workspace.Selection{})
	if err != nil {
		t.Fatal(err)
	}
	if len(warnings) != 4 || !strings.Contains(strings.Join(warnings, "\n"),
		".git stays a file, and git will not work there: "+filepath.Join(private, ".git")+" is not the repository of this folder") {
		t.Errorf("%q, want a warning for each .git file", warnings)
	}
	if info, err := os.Lstat(filepath.Join(to, ".git")); err != nil || !info.Mode().IsRegular() {
		t.Errorf("%v %v, want the file as it is", info, err)
	}
}
