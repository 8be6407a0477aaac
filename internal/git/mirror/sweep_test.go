package mirror

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A mirror that no pipeline uses any more is deleted after a week. One that another pipeline has used since, or that is in use, stays.
func TestUnusedMirrorsAreDeleted(t *testing.T) {
	t.Parallel()
	h := newHost(t, fleet())
	s := open(t)
	mirrors := func() (dirs []string) {
		dirs, err := filepath.Glob(filepath.Join(s.Dir, "*.git"))
		if err != nil {
			t.Fatal(err)
		}
		return dirs
	}
	age := func() (lock string) {
		t.Helper()
		long := time.Now().Add(-2 * keepUnused)
		lock = lockOf(mirrors()[0])
		if err := os.Chtimes(lock, long, long); err != nil {
			t.Fatal(err)
		}
		return lock
	}
	sweep := func(what string, want int) {
		t.Helper()
		if err := Sweep(s.Dir); err != nil {
			t.Fatal(err)
		}
		if got := len(mirrors()); got != want {
			t.Errorf("%s: %d mirrors, want %d", what, got, want)
		}
	}
	propose(t, s, h.request("6.6.0"))
	sweep("used now", 1)
	age()
	propose(t, s, h.request("6.6.0"))
	sweep("used again", 1)
	file, err := os.Open(age())
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	sweep("in use", 1)
	unlock(file)
	keys := keysOf(mirrors()[0])
	if err := os.Mkdir(keys, 0o700); err != nil {
		t.Fatal(err)
	}
	sweep("unused for long", 0)
	if _, err := os.Stat(keys); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the keys that a crash has left are there still: %v", err)
	}
	propose(t, s, h.request("6.7.0"))
	sweep("used once more", 1)
}

// The path of a home may have any characters, those of patterns included.
func TestAFolderIsNoPattern(t *testing.T) {
	t.Parallel()
	h := newHost(t, fleet())
	s, err := Open(Options{Dir: filepath.Join(t.TempDir(), "[home")})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := s.Propose(t.Context(), h.request("6.6.0")); err != nil || len(r.Lines) != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	locks, err := fs.Glob(os.DirFS(s.Dir), "*.lock")
	if err != nil || len(locks) != 1 {
		t.Fatal(locks, err)
	}
	long := time.Now().Add(-2 * keepUnused)
	if err := errors.Join(os.Chtimes(filepath.Join(s.Dir, locks[0]), long, long), Sweep(s.Dir)); err != nil {
		t.Fatal(err)
	}
	if left, err := fs.Glob(os.DirFS(s.Dir), "*.git"); err != nil || len(left) > 0 {
		t.Errorf("mirrors %q are left, %v", left, err)
	}
}
