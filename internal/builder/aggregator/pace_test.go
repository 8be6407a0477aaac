package aggregator

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
)

// starting lists a worker that starts as old as it is, and counts.
type starting struct {
	since time.Time
	asked int
}

func (s *starting) Workers(context.Context) ([]Worker, error) {
	s.asked++
	return []Worker{{Build: 1, Status: build.WorkerPending, Age: time.Since(s.since)}}, nil
}

// TestAWorkerThatStartsIsListedOften while it is young.
func TestAWorkerThatStartsIsListedOften(t *testing.T) {
	t.Parallel()
	for age, want := range map[time.Duration][2]int{0: {10, 20}, time.Hour: {1, 1}} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			list := &starting{since: time.Now().Add(-age)}
			if err := New(Config{Workers: list, Every: 10 * time.Second}).Run(ctx); err != nil || list.asked < want[0] || list.asked > want[1] {
				t.Errorf("a worker of the age %s is listed %d times a second, want %v; %v", age, list.asked, want, err)
			}
		})
	}
}
