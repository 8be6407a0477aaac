package file_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/waybill-dev/waybill/internal/file"
)

// TestOnlyRegularFilesAreRead: neither a pipe, which would be waited for, nor a device, which has no end.
func TestOnlyRegularFilesAreRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.WriteFile(at("file"), []byte("1234"), 0o600), os.Symlink("file", at("link")), os.Symlink("/dev/zero", at("zero")),
		os.Symlink("loop", at("loop")), syscall.Mkfifo(at("pipe"), 0o600), os.Mkdir(at("folder"), 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"file", "link"} {
		if got, err := file.Read(at(name), 4); err != nil || string(got) != "1234" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if _, err := file.Read(at(name), 3); !errors.Is(err, file.ErrSize) {
			t.Errorf("%s beyond its bound: %v", name, err)
		}
	}
	for _, name := range []string{"zero", "pipe", "folder"} {
		_, err := file.Read(at(name), 4)
		if at, ok := errors.AsType[*fs.PathError](err); !ok || !errors.Is(err, file.ErrKind) || filepath.Base(at.Path) != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := file.Read(at("loop"), 4); err == nil || errors.Is(err, file.ErrKind) {
		t.Errorf("a link to itself: %v", err)
	}
	if _, err := file.Read(at("none"), 4); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, name := range []string{"pipe", "folder"} {
		if _, _, err := file.OpenIn(root, name); !errors.Is(err, file.ErrKind) {
			t.Errorf("%s below a root: %v", name, err)
		}
	}
	if f, info, err := file.OpenIn(root, "link"); err != nil || info.Size() != 4 || f.Close() != nil {
		t.Errorf("a link below a root: %v", err)
	}
	if _, _, err := file.OpenUnlinked(at("link")); !errors.Is(err, file.ErrKind) {
		t.Errorf("a link that is not followed: %v", err)
	}
}
