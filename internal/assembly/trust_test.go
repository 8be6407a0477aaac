package assembly

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/waybill-dev/waybill/internal/file"
)

func TestFilesOfOthersAreForeign(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		owner, self int
		sudo        string
		want        bool
	}{
		{1000, 1000, "", false}, {0, 1000, "", false}, {0, 0, "", false}, {1001, 1000, "", true}, {1000, 0, "", true},
		{1000, 0, "1000", false}, {1001, 0, "1000", true}, {1001, 1000, "1001", true}, {1000, 0, "x", true},
	} {
		if got := isForeign(c.owner, c.self, c.sudo); got != c.want {
			t.Errorf("a file of %d for %d (SUDO_UID=%q): %v, want %v", c.owner, c.self, c.sudo, got, c.want)
		}
	}
}

// TestReadTrusted gives files away as root does; another user can only see that its own are read.
func TestReadTrusted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, link, pipe := filepath.Join(dir, "vars"), filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	if err := errors.Join(os.WriteFile(path, []byte("0123456789"), 0o600), os.Symlink(path, link), syscall.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	p := Place{Environment: func(string) string { return "" }}
	if got, err := p.ReadTrusted(link, 4); err != nil || string(got) != "01234" {
		t.Errorf("read %q, %v, want one byte beyond the limit", got, err)
	}
	if _, err := p.ReadTrusted(filepath.Join(dir, "none"), 4); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if got, err := file.ReadRegular(link, 4); err != nil || string(got) != "01234" {
		t.Errorf("read %q, %v, want one byte beyond the limit", got, err)
	}
	for _, other := range []string{pipe, dir} {
		if _, err := p.ReadTrusted(other, 4); err == nil {
			t.Errorf("%s was read", other)
		}
		if _, err := file.ReadRegular(other, 4); err == nil {
			t.Errorf("%s was read", other)
		}
	}
	if os.Getuid() != 0 {
		return // only root can give a file away
	}
	for _, foreign := range []string{link, path} { // the link alone, then its target too
		if err := os.Lchown(foreign, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{link, foreign} {
			if _, err := p.ReadTrusted(name, 4); !errors.Is(err, file.ErrForeign) {
				t.Errorf("%s of another user: %v", name, err)
			}
		}
	}
}
