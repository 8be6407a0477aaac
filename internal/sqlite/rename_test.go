package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestRenameReplacesNothing: neither what was there nor what has appeared since the caller looked.
func TestRenameReplacesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	from, taken, free := filepath.Join(dir, "from"), filepath.Join(dir, "taken"), filepath.Join(dir, "free")
	for _, name := range []string{from, taken} {
		if err := os.WriteFile(name, []byte(filepath.Base(name)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := rename(from, taken); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a file: %v, want %v", err, fs.ErrExist)
	}
	if text, err := os.ReadFile(taken); err != nil || string(text) != "taken" {
		t.Errorf("it holds %q, %v", text, err)
	}
	if err := rename(from, free); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(free); err != nil || string(text) != "from" {
		t.Errorf("the new name holds %q, %v", text, err)
	}
	if err := rename(from, filepath.Join(dir, "other")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a file that is gone: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("left: %v, %v", entries, err)
	}
}
