//go:build services

package aggregator_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/builder/aggregator"
	"github.com/waybill-dev/waybill/internal/childtest"
)

// disk is a small file system that can be full.
type disk string

func newDisk(t *testing.T, options string) disk {
	t.Helper()
	d := t.TempDir()
	if err := unix.Mount("tmpfs", d, "tmpfs", 0, options); err != nil {
		t.Fatalf("mount a small file system (needs root, or user namespaces): %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(d, unix.MNT_DETACH) })
	return disk(d)
}

func (d disk) ballast() string { return filepath.Join(string(d), "ballast") }

// fill writes until nothing more fits.
func (d disk) fill(t *testing.T) {
	t.Helper()
	file, err := os.Create(d.ballast())
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for block := make([]byte, 4096); err == nil; {
		_, err = file.Write(block)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
}

// free makes room again.
func (d disk) free(t *testing.T) {
	t.Helper()
	if err := os.Remove(d.ballast()); err != nil {
		t.Fatal(err)
	}
}

// TestADatabaseOnAFullDiskIsFilledLater: the worker keeps the data for which the database has no room.
func TestADatabaseOnAFullDiskIsFilledLater(t *testing.T) {
	if !childtest.AsRoot(t) {
		return
	}
	d := newDisk(t, "size=48m")
	w := newWorld(t, filepath.Join(string(d), "waybill.db"))
	d.fill(t)
	refused := &counting{Store: w.Builds, failed: make(chan struct{}, 100)}
	w.aggregate(func(c *aggregator.Config) { c.Store = refused })
	w.build(20_000)
	for range 3 {
		<-refused.failed
	}
	select {
	case <-w.server.Acknowledged():
		t.Error("the worker was acknowledged")
	default:
	}
	d.free(t)
	w.taken()
	w.check()
}

// TestABlobStoreOnAFullDiskIsFilledLater: the build does not end before its artifacts are stored.
func TestABlobStoreOnAFullDiskIsFilledLater(t *testing.T) {
	if !childtest.AsRoot(t) {
		return
	}
	d := newDisk(t, "size=2m")
	w := newWorld(t, filepath.Join(t.TempDir(), "waybill.db"))
	var err error
	w.blobs, err = blob.OpenDir(string(d))
	w.must(err)
	d.fill(t)
	w.build(100)
	refused := &refusing{Store: w.blobs, failed: make(chan struct{}, 100)}
	w.aggregate(func(c *aggregator.Config) { c.Blobs = refused })
	for range 3 {
		<-refused.failed
	}
	if b, err := w.Build(t.Context(), w.id); err != nil || b.Status.Ended() {
		t.Errorf("the build is %+v, %v", b, err)
	}
	if artifacts, err := w.Artifacts(t.Context(), w.id, 0); err != nil || len(artifacts) > 0 {
		t.Errorf("the artifacts are %+v, %v", artifacts, err)
	}
	d.free(t)
	w.taken()
	w.check()
}

// refusing reports each blob that could not be stored.
type refusing struct {
	blob.Store
	failed chan struct{}
}

func (r *refusing) Put(ctx context.Context, key string, from io.Reader) (string, string, int64, error) {
	stored, digest, size, err := r.Store.Put(ctx, key, from)
	if err != nil {
		select {
		case r.failed <- struct{}{}:
		default:
		}
	}
	return stored, digest, size, err
}
