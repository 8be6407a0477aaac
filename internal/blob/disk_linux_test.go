//go:build services

package blob_test

import (
	"bytes"
	"strings"
	"syscall"
	"testing"

	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/internal/fault"
)

func TestFullDiskIsUnavailableAndLosesNothing(t *testing.T) {
	t.Parallel()
	if !childtest.AsRoot(t) {
		return
	}
	root := t.TempDir()
	if err := syscall.Mount("tmpfs", root, "tmpfs", 0, "size=256k"); err != nil {
		t.Fatalf("mount a small tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(root, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	d, err := blob.OpenDir(root)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := d.Put(t.Context(), "small", strings.NewReader("stays")); err != nil {
		t.Fatal(err)
	}
	_, _, _, err = d.Put(t.Context(), "large", bytes.NewReader(make([]byte, 1<<20)))
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(fault.HintOf(err), "make room") {
		t.Errorf("got %v, hint %q", err, fault.HintOf(err))
	}
	if got := read(t, d, "small"); got != "stays" {
		t.Errorf("got %q", got)
	}
	if _, _, _, err := d.Put(t.Context(), "next", strings.NewReader("fits again")); err != nil {
		t.Errorf("after the failed Put: %v", err)
	}
}
