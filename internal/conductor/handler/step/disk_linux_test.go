//go:build services

package step

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// small mounts a small disk as the host.
func small(t *testing.T, w *world, options string) {
	t.Helper()
	host := filepath.Dir(w.dir)
	if err := os.MkdirAll(host, 0o755); err != nil {
		t.Fatal(err)
	}
	flags := uintptr(0)
	if options == "" {
		flags = syscall.MS_RDONLY
	}
	if err := syscall.Mount("tmpfs", host, "tmpfs", flags, options); err != nil {
		t.Fatalf("mount a small tmpfs: %v", err)
	}
	t.Cleanup(func() {
		w.stopAll()
		if err := syscall.Unmount(host, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

func TestFullDiskIsFatalAndTheCurrentReleaseRunsOn(t *testing.T) {
	if !childtest.AsRoot(t) {
		return
	}
	underEach(t, func(t *testing.T, w *world) {
		small(t, w, "size=2m")
		w.revise(1, forever)
		w.ship(1)
		noise := bytes.Repeat([]byte("0123456789abcdef"), 40_000) // needs twice 640 kB
		w.register(2, "greeter.tar.gz", pack(t, map[string]string{"greeter*": "x", "large": string(noise), "other": string(noise[1:])}))
		w.wantOutcome(w.do(t.Context(), 2, pipeline.HostReplicated), action.Fatal, "free, and release r2-",
			"needs twice 1.3 MB", "make room on the disk of")
		fill := filepath.Join(w.dir, "shared", "fill")
		_ = os.WriteFile(fill, bytes.Repeat([]byte("x"), 4<<20), 0o600) // as far as it goes
		w.revise(3, forever+"; # three")
		o := w.do(t.Context(), 3, pipeline.HostReplicated)
		w.wantOutcome(o, action.Fatal, "make room on the disk of")
		if s := w.state(); s.Release != w.release(1) || s.Service == 0 {
			t.Errorf("%+v", s)
		}
		if err := os.Remove(fill); err != nil {
			t.Fatal(err)
		}
		w.ship(3)
		if s := w.state(); s.Release != w.release(3) || s.Running != w.release(3) {
			t.Errorf("with room again: %+v", s)
		}
	})
}

func TestReadOnlyHostIsFatal(t *testing.T) {
	if !childtest.AsRoot(t) {
		return
	}
	underEach(t, func(t *testing.T, w *world) {
		small(t, w, "")
		w.revise(1, forever)
		w.wantOutcome(w.do(t.Context(), 1, pipeline.HostReplicated), action.Fatal, "Read-only file system",
			"let the user that runs Waybill there write to")
	})
}
