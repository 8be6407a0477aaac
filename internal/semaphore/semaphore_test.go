package semaphore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/fault"
)

func TestOneMoreWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		s := New(2, time.Minute, "too many are read")
		first, err := s.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		third := make(chan error)
		go func() {
			_, err := s.Acquire(t.Context())
			third <- err
		}()
		synctest.Wait()
		select {
		case err := <-third:
			t.Fatalf("the third began beside two: %v", err)
		default:
		}
		first()
		if err := <-third; err != nil {
			t.Errorf("after one had ended: %v", err)
		}
	})
}

func TestPatienceEndsInARefusal(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		s := New(1, 2*time.Second, "too many are read")
		if _, err := s.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err := s.Acquire(t.Context())
		if !fault.Is(err, fault.Unavailable) || !strings.HasPrefix(err.Error(), "too many are read") {
			t.Errorf("got %v, want it unavailable", err)
		}
		if waited := time.Since(began); waited != 2*time.Second {
			t.Errorf("waited %s", waited)
		}
		gone, cancel := context.WithCancelCause(t.Context())
		left := errors.New("the client has left")
		cancel(left)
		if _, err := s.Acquire(gone); !errors.Is(err, left) {
			t.Errorf("a caller that has left: %v", err)
		}
	})
}
