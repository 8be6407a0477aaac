package store

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/fault"
)

// slow is a driver whose lists for readers last until done is closed.
type slow struct {
	Driver
	done chan struct{}
}

func (slow) Listen(func(Signal)) {}

func (s slow) Read(_ context.Context, use Use, _ func(Rows) error) error {
	if use == ForLists {
		<-s.done
	}
	return nil
}

// TestListsWaitForEachOther checks that readers have two lists at a time. A third list waits for
// listPatience and is then refused.
func TestListsWaitForEachOther(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		driver := slow{done: make(chan struct{})}
		db := New(driver)
		list := func(db *DB) error { return db.List(t.Context(), "read a list", func(*Tx) error { return nil }) }
		ended := make(chan error, 2)
		go func() { ended <- list(db.For(ForReaders)) }()
		go func() { ended <- list(db.For(ForReaders)) }()
		synctest.Wait()
		began := time.Now()
		if err := list(db.For(ForReaders)); !fault.Is(err, fault.Unavailable) || time.Since(began) != listPatience {
			t.Errorf("one list too many ended after %s: %v", time.Since(began), err)
		}
		if err := list(db); err != nil {
			t.Errorf("a list of the queue itself: %v", err)
		}
		time.AfterFunc(listPatience/2, func() { close(driver.done) })
		if err := list(db.For(ForReaders)); err != nil {
			t.Errorf("a list that found room while it waited: %v", err)
		}
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}
