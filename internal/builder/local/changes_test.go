package local

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/bubbletest"
)

func TestAChangeIsAwaitedUntilNothingMoreIsWritten(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		stamps := []string{"a", "a", "b", "", "c", "a", "d", "d", "never"}
		looks := 0
		look := func(context.Context) (string, error) {
			<-time.After(time.Second) // a large folder
			looks++
			return stamps[looks-1], nil
		}
		began := time.Now()
		if err := AwaitChange(t.Context(), "a", look); err != nil || looks != len(stamps)-1 {
			t.Errorf("returned after %d looks, %v, want %d", looks, err, len(stamps)-1)
		}
		if took := time.Since(began); took != 78*time.Second {
			t.Errorf("took %s: looks take a tenth of the time", took)
		}

		ended := errors.New("ended")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(ended) })
		if err := AwaitChange(ctx, "a", func(context.Context) (string, error) { return "a", nil }); !errors.Is(err, ended) {
			t.Errorf("got %v, want what ended it", err)
		}
		if err := AwaitChange(t.Context(), "a", func(context.Context) (string, error) { return "", ended }); !errors.Is(err, ended) {
			t.Errorf("got %v, want the error of the look", err)
		}
	})
}
