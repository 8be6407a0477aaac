package git_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/workspace"
)

// rounds is the number of odd repositories to try: -rounds 1000 searches for long.
var rounds = flag.Int("rounds", 3, "odd repositories to try")

// layout is a random repository with the contents of its commit.
type layout struct {
	folder
	random *rand.Rand
}

// names lists odd names that git and a file system accept.
var names = []string{"a", "b.txt", "with space", "ünï", "-dash", "x\ny", "q\"uote", ":(top)x", "*", "d/e", "d/f/g", "tab\there", "[b]"}

// newLayout makes a repository with random files, links, ignore rules and submodules in the folder service.
func newLayout(t *testing.T, seed uint64) layout {
	l := layout{newFolder(t), rand.New(rand.NewPCG(seed, 0))} //nolint:gosec // repeatable
	for _, name := range names {
		if l.random.IntN(2) == 0 {
			l.write("service/"+name, fmt.Sprint(l.random.IntN(3)))
		}
	}
	l.write("service/always", "x")
	l.write("service/.gitignore", "*.secret\nignored/\n")
	if l.random.IntN(2) == 0 {
		l.must(os.Symlink([]string{"a", "/etc", "..", "nothing"}[l.random.IntN(4)], filepath.Join(l.dir, "link")))
	}
	if l.random.IntN(3) == 0 {
		l.must(os.Chmod(filepath.Join(l.dir, "always"), 0o755))
	}
	l.commit("files")
	for i := range l.random.IntN(3) {
		inner := newFolder(t)
		inner.write("lib", fmt.Sprint(i))
		inner.write(".gitignore", "*.secret\n")
		inner.commit("lib")
		l.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner.root, fmt.Sprintf("service/sub%d", i))
		l.commit("a submodule")
	}
	return l
}

func (f folder) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// checkouts returns the ways to have the repository's files.
func (l layout) checkouts() map[string]folder {
	all := map[string]folder{}
	clone := func(name string, arguments ...string) folder {
		all[name] = l.clone(arguments...)
		return all[name]
	}
	clone("whole", "--recurse-submodules")
	clone("bare of submodules")
	clone("shallow", "--depth=1", "--recurse-submodules")
	shared := filepath.Join(l.t.TempDir(), "shared")
	l.git("-c", "protocol.file.allow=always", "clone", "-q", "--shared", "--recurse-submodules", l.root, shared)
	all["alternates"] = folder{t: l.t, root: shared, dir: filepath.Join(shared, "service")}
	tree := filepath.Join(l.t.TempDir(), "tree")
	l.git("worktree", "add", "-q", "--detach", tree)
	work := folder{t: l.t, root: tree, dir: filepath.Join(tree, "service")}
	work.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init")
	all["work tree"] = work
	sparse := clone("sparse", "--recurse-submodules")
	sparse.git("sparse-checkout", "set", "--no-cone", "/*", "!always")
	return all
}

// disturb changes a checkout in a way that must not hide from the label, or must not change it.
func (l layout) disturb(f folder) {
	write := func(name, text string) {
		path := filepath.Join(f.dir, filepath.FromSlash(name))
		l.must(os.MkdirAll(filepath.Dir(path), 0o755))
		l.must(os.WriteFile(path, []byte(text), 0o600))
	}
	write("x.secret", "S")
	write("ignored/y", "S")
	switch l.random.IntN(8) {
	case 0:
		f.git("update-index", "--skip-worktree", "service/always")
		_ = os.Remove(filepath.Join(f.dir, "always"))
		write("always", "changed")
	case 1:
		_ = os.RemoveAll(filepath.Join(f.dir, "d"))
		l.must(os.Symlink("/etc", filepath.Join(f.dir, "d")))
	case 2:
		nested := filepath.Join(f.dir, "nested")
		l.must(os.Mkdir(nested, 0o755))
		folder{t: f.t, root: nested}.git("init", "-q")
		write("nested/own", "x")
		write("nested/z.secret", "S")
		write("nested/.gitignore", "*.secret\n")
	case 3:
		_ = os.Remove(filepath.Join(f.dir, "always"))
		write("always/inner", "x")
	case 4:
		l.must(exec.Command("mkfifo", filepath.Join(f.dir, "pipe")).Run())
	case 5:
		f.git("rm", "-q", "--sparse", "--cached", "service/always")
	case 6:
		write("other", "x")
		f.git("add", "--sparse", "service/other")
	}
}

// TestOddRepositories makes random repositories, has them in every way, and disturbs them. Whatever git makes of it:
// the work ends, the same files have the same label and the same snapshot, only those of HEAD have its plain label, and
// ignored files are never among them.
func TestOddRepositories(t *testing.T) {
	t.Parallel()
	for seed := range uint64(*rounds) { //nolint:gosec // not negative
		l := newLayout(t, seed)
		commit := l.tree().Commit
		want := l.snapshot()
		labels, snapshots := map[string]string{}, map[string]string{}
		for name, f := range l.checkouts() {
			for _, disturbed := range []bool{false, true} {
				if disturbed {
					l.disturb(f)
				}
				tree, packed := f.tree(), f.snapshot()
				about := fmt.Sprintf("seed %d, %s, disturbed %t: %s", seed, name, disturbed, tree.Label)
				if slices.ContainsFunc(tree.Files, func(name string) bool {
					return strings.HasSuffix(name, ".secret") || strings.Contains(name, "ignored/")
				}) {
					t.Errorf("%s: ignored files in %q", about, tree.Files)
				}
				if (tree.Label == tree.Commit.Short) != (packed == want) {
					t.Errorf("%s: plain label %t, files of the commit %t: %q", about, tree.Label == tree.Commit.Short, packed == want, tree.Files)
				}
				if tree.Commit.Hash != commit.Hash {
					continue // a shallow clone does not know better, and reports it
				}
				if other, ok := labels[packed]; ok && other != tree.Label {
					t.Errorf("%s: the same files are %s too", about, other)
				}
				if other, ok := snapshots[tree.Label]; ok && other != packed {
					t.Errorf("%s: the label has other files too", about)
				}
				labels[packed], snapshots[tree.Label] = tree.Label, packed
			}
		}
	}
}

// snapshot returns the digest of the folder's snapshot.
func (f folder) snapshot() string {
	f.t.Helper()
	var out bytes.Buffer
	digest, _, err := workspace.Pack(context.Background(), &out, f.dir, f.tree().Files)
	f.must(err)
	return digest
}
