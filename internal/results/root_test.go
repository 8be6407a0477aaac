package results_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/results"
)

// TestTemporaryTrustsNoFolderOfOthers has another user prepare the folder in the system's temporary
// one in each way that would let them put files among a build's.
func TestTemporaryTrustsNoFolderOfOthers(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, shared string){
		"nothing is there":  func(*testing.T, string) {},
		"others may write":  func(t *testing.T, shared string) { folder(t, shared, 0o777) },
		"others may look":   func(t *testing.T, shared string) { folder(t, shared, 0o755) },
		"a link":            func(t *testing.T, shared string) { link(t, t.TempDir(), shared) },
		"a link to nothing": func(t *testing.T, shared string) { link(t, filepath.Join(t.TempDir(), "x"), shared) },
		"a file": func(t *testing.T, shared string) {
			if err := os.WriteFile(shared, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"files can be renamed": func(t *testing.T, shared string) {
			if err := os.Chmod(filepath.Dir(shared), 0o777); err != nil { // without the sticky bit
				t.Fatal(err)
			}
		},
		"another user's": func(t *testing.T, shared string) {
			folder(t, shared, 0o700)
			if os.Getuid() == 0 { // only root can give a folder away
				if err := os.Chown(shared, 12345, 12345); err != nil {
					t.Fatal(err)
				}
			} else if err := os.Chmod(shared, 0o777); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			temporary, cache := filepath.Join(t.TempDir(), "tmp"), t.TempDir()
			folder(t, temporary, 0o777|os.ModeSticky)
			t.Setenv("TMPDIR", temporary)
			t.Setenv("XDG_CACHE_HOME", cache)
			shared := filepath.Join(temporary, "iver-wharf")
			prepare(t, shared)
			want := filepath.Join(cache, "iver-wharf")
			if name == "nothing is there" {
				want = shared
			}
			got, err := results.Temporary()
			if err != nil || got != want {
				t.Fatalf("got %s, %v; want %s", got, err, want)
			}
			info, err := os.Lstat(got)
			if err != nil || info.Mode() != os.ModeDir|0o700 {
				t.Errorf("%s has mode %v, %v; want a folder with 0700", got, info.Mode(), err)
			}
		})
	}
}

func TestResultsGoToNoFolderThatOthersMayEnter(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "results")
	folder(t, dir, 0o775)
	if _, err := results.Create(dir, 1<<20); err == nil || !strings.Contains(err.Error(), "chmod 700 "+dir) {
		t.Errorf("got %v, want an error that says what to do", err)
	}
}

func folder(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask
		t.Fatal(err)
	}
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}
