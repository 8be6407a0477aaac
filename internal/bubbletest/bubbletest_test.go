package bubbletest

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// Many timers are due at the same time here, and each goroutine waits for two: with the race detector and several processors,
// a bubble of synctest.Test dies of it within a second.
func TestTimersThatAreDueTogether(t *testing.T) {
	for range 50 {
		Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
			defer cancel()
			for range 20 {
				go func() {
					ticker := time.NewTicker(time.Second)
					for ctx.Err() == nil {
						select {
						case <-ctx.Done():
						case <-ticker.C:
						case <-time.After(time.Second):
						}
					}
				}()
			}
			<-ctx.Done()
			synctest.Wait()
		})
	}
}

// Bubbles that end in another order than they began leave as many processors as before.
func TestProcessorsAreGivenBack(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	t.Run("bubbles", func(t *testing.T) {
		for range 4 {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for range 10 {
					Test(t, func(*testing.T) { <-time.After(time.Hour) })
				}
			})
		}
	})
	if after := runtime.GOMAXPROCS(0); after != before {
		t.Errorf("%d processors are in use, before it were %d", after, before)
	}
}
