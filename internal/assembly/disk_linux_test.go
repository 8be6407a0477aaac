//go:build services

package assembly

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/lifecycle"
	"github.com/waybill-dev/waybill/internal/operation"
)

// TestAHomeOnAReadOnlyDiskIsRead: a writer reports the fault and the folder.
func TestAHomeOnAReadOnlyDiskIsRead(t *testing.T) {
	if !childtest.AsRoot(t) {
		return
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Fatalf("mount a tmpfs: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	p := placeIn(dir, nil)
	s, err := p.Open(t.Context(), dir, Create)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := lifecycle.Lock(s.Home.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	s.Close()
	stale, long := filepath.Join(s.Home.blobs(), "tmp", "stale"), time.Now().AddDate(-1, 0, 0)
	write(t, stale, "")
	if err := os.Chtimes(stale, long, long); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	s, err = p.Open(t.Context(), dir, Existing)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, statusErr := operation.GetStatus.Call(t.Context(), s, operation.Nothing{})
	pipelines, pipelinesErr := operation.ListPipelines.Call(t.Context(), s, operation.Nothing{})
	if err := errors.Join(statusErr, pipelinesErr); err != nil || len(pipelines) != 0 || !s.IsIdle(t.Context()) {
		t.Errorf("pipelines %v, %v", pipelines, err)
	}
	_, lockErr := lifecycle.Lock(s.Home.Dir)
	_, createErr := p.Open(t.Context(), dir, Create)
	for _, err := range []error{lockErr, createErr} {
		wantFault(t, err, fault.Unavailable, s.Home.Dir)
		wantFault(t, err, fault.Unavailable, "read-only file system")
		if fault.HintOf(err) == "" {
			t.Errorf("nothing says what to do: %v", err)
		}
	}
}
