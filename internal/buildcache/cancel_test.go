package buildcache_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/waybill-dev/waybill/internal/buildcache"
)

// TestASoundEntryStays: a restore that is canceled, or that the workspace is in the way of, costs no entry.
func TestASoundEntryStays(t *testing.T) {
	t.Parallel()
	s := buildcache.Open(t.TempDir(), 1<<30).Of("shop")
	save(t, s, "k", "one")
	canceled, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("canceled"))
	if got, err := s.Restore(canceled, "k", nil, t.TempDir(), inCache); err == nil {
		t.Errorf("%+v was restored after a cancel", got)
	}
	work := t.TempDir()
	if err := os.Symlink(t.TempDir(), filepath.Join(work, "cache")); err != nil {
		t.Fatal(err)
	}
	deep := func(path string) bool { return path == "cache/deep/file" }
	if got, err := s.Restore(t.Context(), "k", nil, work, deep); err == nil {
		t.Errorf("%+v was restored behind a link", got)
	}
	if got := restored(t, s, "k"); got != "k true one" {
		t.Errorf("%s", got)
	}
}

// TestACancelEndsTheSavingOfALargeFile: one of the largest size would be packed for days.
func TestACancelEndsTheSavingOfALargeFile(t *testing.T) {
	t.Parallel()
	work := folder(t, map[string]string{"cache/large": ""})
	if err := os.Truncate(filepath.Join(work, "cache/large"), 1<<42); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ctx, cancel := context.WithCancelCause(t.Context())
	go cancelOnceWriting(ctx, dir, cancel)
	if _, err := buildcache.Open(dir, 1<<30).Of("p").Save(ctx, "k", work, inCache); err == nil {
		t.Error("the file was saved")
	}
}

// TestAnEntryThatIsTooLargeEndsWhereItsBoundIs: to its end it would be packed for days.
func TestAnEntryThatIsTooLargeEndsWhereItsBoundIs(t *testing.T) {
	t.Parallel()
	noise := make([]byte, 4<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise) // never fails
	work := folder(t, map[string]string{"cache/a": string(noise), "cache/large": ""})
	if err := os.Truncate(filepath.Join(work, "cache/large"), 1<<42); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if size, err := buildcache.Open(dir, 1<<20).Of("p").Save(t.Context(), "k", work, inCache); size != 0 || err != nil {
		t.Errorf("%d bytes were saved, %v", size, err)
	}
	if files, err := filepath.Glob(filepath.Join(dir, "*", "*")); err != nil || len(files) > 0 {
		t.Errorf("left over: %v, %v", files, err)
	}
}

// cancelOnceWriting waits until an entry has bytes.
func cancelOnceWriting(ctx context.Context, dir string, cancel context.CancelCauseFunc) {
	for ctx.Err() == nil {
		files, _ := filepath.Glob(filepath.Join(dir, "*", "new-*"))
		for _, f := range files {
			if info, err := os.Stat(f); err == nil && info.Size() > 0 {
				cancel(errors.New("canceled"))
				return
			}
		}
	}
}
