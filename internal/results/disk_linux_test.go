//go:build services

package results_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/internal/results"
)

// TestFullDiskLeavesRoomForTheEnd fills a small file system: the log reports it, and the last statuses are still
// written.
func TestFullDiskLeavesRoomForTheEnd(t *testing.T) {
	if !childtest.AsRoot(t) {
		return
	}
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=3m"); err != nil {
		t.Fatalf("mount a small file system (needs root, or user namespaces): %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	dir := filepath.Join(disk, "b")
	store := create(t, dir, 0)
	update(t, store, 0, build.Running)
	update(t, store, 1, build.Running)
	log, err := store.Log(1)
	if err != nil {
		t.Fatal(err)
	}
	written := 0
	for ; written < 1000; written++ {
		if err = log.Append(line(strings.Repeat("x", 32<<10))); err != nil {
			break
		}
	}
	if !errors.Is(err, results.ErrDiskFull) {
		t.Fatalf("%v after %d entries, want a full disk", err, written)
	}
	other, err := store.Log(2) // does not take the rest for the statuses
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Append(line("x")); !errors.Is(err, results.ErrDiskFull) {
		t.Errorf("another log: %v", err)
	}
	if _, err := store.AddArtifact(build.Artifact{Step: 1, Name: "a", Kind: build.KindFile},
		strings.NewReader(strings.Repeat("x", 200<<10))); !errors.Is(err, results.ErrDiskFull) {
		t.Errorf("an artifact: %v", err)
	}
	if u := update(t, store, 1, build.Failed); u.Trailer.Entries != int64(written) {
		t.Errorf("%d entries, want %d", u.Trailer.Entries, written)
	}
	update(t, store, 2, build.Skipped)
	update(t, store, 0, build.Failed)
	if err := open(t, dir).Verify(); err != nil {
		t.Error(err)
	}
}
