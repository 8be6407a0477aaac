package lifecycle_test

import (
	"sync"
	"testing"

	"github.com/waybill-dev/waybill/internal/lifecycle"
)

// Somebody who asks whether a process has the home never keeps one that is starting from taking it.
func TestLookingDoesNotTakeTheHome(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	if lifecycle.IsHeld(home) {
		t.Error("a home that nobody ever had is held")
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
			t.Error("it is held, and nobody says so")
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
