package buildcache_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/buildcache"
)

// inCache reports whether a file of a workspace is cached.
func inCache(path string) bool { return path == "cache" || strings.HasPrefix(path, "cache/") }

// folder returns a workspace with files, by name and content.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// anHourAgo makes all entries that much older.
func anHourAgo(t *testing.T, dir string) {
	t.Helper()
	at := time.Now().Add(-time.Hour)
	files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	for _, f := range files {
		err = errors.Join(err, os.Chtimes(f, at, at))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func save(t *testing.T, s *buildcache.Shelf, key, content string) int64 {
	t.Helper()
	size, err := s.Save(t.Context(), key, folder(t, map[string]string{"cache/deep/file": content, "other": "x"}), inCache)
	if err != nil {
		t.Fatal(err)
	}
	return size
}

// restored returns what a workspace that had something of its own has after a restore: the key and the content of the file.
func restored(t *testing.T, s *buildcache.Shelf, key string, prefixes ...string) string {
	t.Helper()
	dir := folder(t, map[string]string{"cache/deep/file": "own", "cache/own": "own", "other": "own"})
	got, err := s.Restore(t.Context(), key, prefixes, dir, inCache)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(dir, "cache/deep/file"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = os.Stat(filepath.Join(dir, "cache/own"))
	if own := err == nil; own != (got.Key == "") {
		t.Errorf("after a restore of %q the workspace has its own file: %t", got.Key, own)
	}
	if other, err := os.ReadFile(filepath.Join(dir, "other")); err != nil || string(other) != "own" {
		t.Errorf("other is %q, %v", other, err)
	}
	return fmt.Sprintf("%s %t %s", got.Key, got.Exact, content)
}

func TestRestore(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cache")
	store := buildcache.Open(dir, 1<<30)
	s := store.Of("shop")
	want := func(want, got string) {
		t.Helper()
		if got != want {
			t.Errorf("restored %q, want %q", got, want)
		}
	}
	want(" false own", restored(t, s, "go-1", "go-", ""))
	if size := save(t, s, "go-1", "one"); size == 0 {
		t.Error("nothing was saved")
	}
	anHourAgo(t, dir)
	save(t, s, "go-2", "two")
	want("go-1 true one", restored(t, s, "go-1"))
	want("go-2 false two", restored(t, s, "go-3", "go-"))
	want("go-1 false one", restored(t, s, "go-3", "no-", "go-1", "go-"))
	want(" false own", restored(t, s, "go-3", "no-"))
	want(" false own", restored(t, store.Of("other"), "go-1", "go-"))

	if size := save(t, s, "go-1", "another"); size != 0 {
		t.Error("a key was stored twice")
	}
	want("go-1 true one", restored(t, s, "go-1"))

	long := strings.Repeat("k", 1000)
	save(t, s, long+"1", "long")
	want(" false own", restored(t, s, long+"2"))
	if got := restored(t, s, long+"1"); !strings.HasSuffix(got, " true long") {
		t.Errorf("%q", got)
	}
	if size, err := s.Save(t.Context(), "empty", t.TempDir(), inCache); size != 0 || err != nil {
		t.Errorf("an empty entry has %d bytes, %v", size, err)
	}
}

// TestADamagedEntryIsRemoved: the step runs without it, and the key can be stored again.
func TestADamagedEntryIsRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := buildcache.Open(dir, 1<<30).Of("shop")
	save(t, s, "k", strings.Repeat("one", 1000))
	files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := os.Truncate(files[0], 30); err != nil {
		t.Fatal(err)
	}
	work := folder(t, map[string]string{"cache/own": "own"})
	if got, err := s.Restore(t.Context(), "k", nil, work, inCache); err == nil || got.Key != "" {
		t.Errorf("%+v, %v; want an error", got, err)
	}
	if left, err := os.ReadDir(work); err != nil || len(left) != 0 {
		t.Errorf("the workspace has %v, %v", left, err)
	}
	if size := save(t, s, "k", "two"); size == 0 {
		t.Error("the key was not stored again")
	}
}

// TestTheOldestUseGoesFirst: an entry that is restored stays, whenever it was stored.
func TestTheOldestUseGoesFirst(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	size := save(t, buildcache.Open(t.TempDir(), 1<<30).Of("p"), "a", "aaaa")
	store := buildcache.Open(dir, 2*size+size/2)
	s := store.Of("p")
	save(t, s, "a", "aaaa")
	save(t, s, "b", "bbbb")
	anHourAgo(t, dir)
	restored(t, s, "a")
	save(t, store.Of("q"), "c", "cccc")
	for key, want := range map[string]string{"a": "a true aaaa", "b": " false own"} {
		if got := restored(t, s, key); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
}

// TestOneOfManyWritersWins: builds that end at the same time store a key once.
func TestOneOfManyWritersWins(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var all sync.WaitGroup
	var mu sync.Mutex
	stored := 0
	for i := range 8 {
		work := folder(t, map[string]string{"cache/deep/file": fmt.Sprint(i)})
		all.Go(func() {
			size, err := buildcache.Open(dir, 1<<30).Of("p").Save(t.Context(), "k", work, inCache)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if size > 0 {
				stored++
			}
		})
	}
	all.Wait()
	files, _ := filepath.Glob(filepath.Join(dir, "*", "*"))
	if stored != 1 || len(files) != 1 {
		t.Errorf("%d writers stored the key, and the files are %v", stored, files)
	}
}
