package lifecycle_test

import (
	"errors"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/file"
	"github.com/waybill-dev/waybill/internal/lifecycle"
)

// A process that checks whether the home is locked never keeps a starting process from locking it.
func TestLookingDoesNotTakeTheHome(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	if lifecycle.IsHeld(home) {
		t.Error("a home that was never locked is held")
	}
	done := make(chan struct{})
	var looker sync.WaitGroup
	looker.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				lifecycle.IsHeld(home)
			}
		}
	})
	for range 50 {
		lock, err := lifecycle.Lock(home)
		if err != nil {
			t.Error(err)
			break
		}
		if !lifecycle.IsHeld(home) {
			t.Error("it is held, but is not reported as held")
		}
		if err := lock.Unlock(); err != nil {
			t.Error(err)
		}
	}
	close(done)
	looker.Wait()
	if lifecycle.IsHeld(home) {
		t.Error("it was given back, and is still held")
	}
}

// TestAPipeIsNoLock: the kernel locks one, but it keeps no text about the process that has the home.
func TestAPipeIsNoLock(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(home, lifecycle.LockFile), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := lifecycle.Lock(home); !fault.Is(err, fault.Unavailable) || !errors.Is(err, file.ErrKind) {
		t.Errorf("got %v, want %v", err, file.ErrKind)
	}
}
