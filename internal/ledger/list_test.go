package ledger

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
)

// slow is a driver whose reads for readers take until done is closed.
type slow struct {
	Driver
	done chan struct{}
}

func (slow) Listen(func(Signal)) {}

func (s slow) Browse(context.Context, func(Tx) error) error {
	<-s.done
	return nil
}

func (slow) Read(context.Context, func(Tx) error) error { return nil }

// TestListsWaitForEachOther: readers have two lists at a time; one more waits for a while, and is refused.
func TestListsWaitForEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		driver := slow{done: make(chan struct{})}
		l := New(driver)
		readers := l.ForReaders()
		ended := make(chan error, 2)
		list := func() { _, err := readers.Actions(t.Context(), ActionQuery{}); ended <- err }
		go list()
		go list()
		synctest.Wait()
		began := time.Now()
		if _, err := readers.Waiter().Actions(t.Context(), ActionQuery{}); !fault.Is(err, fault.Unavailable) || time.Since(began) != listPatience {
			t.Errorf("one list too many ended after %s: %v", time.Since(began), err)
		}
		if _, err := l.Actions(t.Context(), ActionQuery{}); err != nil {
			t.Errorf("a list of the queue itself: %v", err)
		}
		time.AfterFunc(listPatience/2, func() { close(driver.done) })
		if _, err := readers.Actions(t.Context(), ActionQuery{}); err != nil {
			t.Errorf("a list that found room while it waited: %v", err)
		}
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}
