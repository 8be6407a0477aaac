package git_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/git"
)

// TestLookingExecutesNothingOfTheRepository gives a repository every kind of program that its configuration may name
// for the commands of this package.
func TestLookingExecutesNothingOfTheRepository(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	mark := filepath.Join(t.TempDir(), "mark")
	script := filepath.Join(f.root, "evil.sh")
	f.write("service/main.go", "package main")
	f.write("service/big.bin", "content")
	f.write("other.txt", "x")
	f.commit("serve")
	inner := newFolder(t)
	inner.write("lib.go", "package lib")
	inner.write("lib.bin", "content")
	inner.commit("a library")
	f.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner.root, "service/lib")
	f.write("service/.gitattributes", "*.bin filter=evil\n")
	f.commit("a submodule")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho \"$0 $*\" >> "+mark+"\ncat\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, place := range []string{f.root, filepath.Join(f.root, "service", "lib")} {
		g := folder{t: t, root: place}
		for _, name := range []string{"core.fsmonitor", "filter.evil.clean", "filter.evil.smudge", "filter.a=b.clean",
			"gpg.program", "core.pager", "core.editor",
			"core.sshCommand", "diff.external", "credential.helper", "core.askPass", "core.alternateRefsCommand"} {
			g.git("config", name, script)
		}
		g.git("config", "filter.evil.required", "true")
		g.git("config", "log.showSignature", "true")
		g.git("config", "protocol.ext.allow", "always")
		g.git("config", "remote.origin.url", "ext::"+script)
		g.git("config", "remote.origin.promisor", "true")
		g.git("config", "extensions.partialClone", "origin")
	}
	if err := os.WriteFile(filepath.Join(f.root, ".git", "modules", "service", "lib", "info", "attributes"),
		[]byte("*.bin filter=evil\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	// Times that differ from the index make git compare contents, through filters.
	later := time.Now().Add(-time.Hour)
	for _, name := range []string{"service/big.bin", "service/lib/lib.bin", "service/main.go"} {
		if err := os.Chtimes(filepath.Join(f.root, name), later, later); err != nil {
			t.Fatal(err)
		}
	}
	looked := git.Open(f.dir)
	tree, err := looked.Tree(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if tree.Label != tree.Commit.Short {
		t.Errorf("the label is %s, want that of the commit, %s: nothing has changed", tree.Label, tree.Commit.Short)
	}
	if _, err := looked.Head(t.Context()); err != nil {
		t.Error(err)
	}
	looked.Precedes(t.Context(), "1234567890123456789012345678901234567890", tree.Commit.Hash)
	if text, err := os.ReadFile(mark); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("programs were executed: %s %v", text, err)
	}
}

// TestWithoutItsConfigurationARepositoryIsRefused: a git that does not list the configuration, since it is too long
// or the git too old, would still execute programs of the configuration.
func TestWithoutItsConfigurationARepositoryIsRefused(t *testing.T) {
	f := newFolder(t)
	mark, script := filepath.Join(t.TempDir(), "mark"), filepath.Join(t.TempDir(), "evil.sh")
	f.write("service/.gitattributes", "*.bin filter=evil\n")
	f.write("service/big.bin", "content")
	f.commit("serve")
	f.write("service/big.bin", "changed")
	f.git("config", "filter.evil.clean", script)
	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	for path, text := range map[string]string{
		script: "#!/bin/sh\necho x > " + mark + "\ncat\n",
		filepath.Join(bin, "git"): "#!/bin/sh\ncase \"$*\" in *' config --list '*) echo 'too long' >&2; exit 129 " +
			";; esac\nexec " + real + " \"$@\"\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	if _, err := git.Open(f.dir).Tree(t.Context()); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(mark); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the filter was executed: %v", err)
	}
}

func TestChangesInsideASubmoduleChangeTheLabel(t *testing.T) {
	t.Parallel()
	f, inner := newFolder(t), newFolder(t)
	inner.write("lib.go", "package lib")
	inner.commit("a library")
	f.write("service/main.go", "package main")
	f.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner.root, "service/lib")
	f.commit("serve")
	if tree := f.tree(); tree.Label != tree.Commit.Short {
		t.Errorf("the label is %s, want %s", tree.Label, tree.Commit.Short)
	}
	f.write("service/lib/lib.go", "package lib // changed")
	if tree := f.tree(); tree.Label == tree.Commit.Short {
		t.Errorf("the label is %s although a file of the submodule has changed", tree.Label)
	}
}
