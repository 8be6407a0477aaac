package workspace_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/waybill-dev/waybill/internal/workspace"
)

func TestAStampChangesWithWhatIsTaken(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	selected := workspace.Selection{Skip: []string{filepath.Join(root, "out")}, Leave: map[string]bool{"ignored": true}}
	stamp := func() string {
		t.Helper()
		s, err := workspace.Stamp(root, selected)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	write := func(name, text string) func() error {
		return func() error {
			path := filepath.Join(root, filepath.FromSlash(name))
			return os.WriteFile(path, []byte(text), 0o600)
		}
	}
	for _, dir := range []string{".git", "out", "src"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	last := stamp()
	for _, step := range []struct {
		name    string
		do      func() error
		changes bool
	}{
		{"a new file", write("src/a", "1"), true},
		{"nothing", func() error { return nil }, false},
		{"other content", write("src/a", "22"), true},
		{"another mode", func() error { return os.Chmod(filepath.Join(root, "src", "a"), 0o700) }, true},
		{"the repository", write(".git/index", "1"), false},
		{"a folder that is left out", write("out/log", "1"), false},
		{"a file that is left out", write("ignored", "1"), false},
		{"a link", func() error { return os.Symlink("src/a", filepath.Join(root, "link")) }, true},
		{"an empty folder", func() error { return os.Mkdir(filepath.Join(root, "empty"), 0o700) }, true},
		{"a removed file", func() error { return os.Remove(filepath.Join(root, "src", "a")) }, true},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		now := stamp()
		if (now != last) != step.changes {
			t.Errorf("%s: changed %t, want %t", step.name, now != last, step.changes)
		}
		last = now
	}
}
