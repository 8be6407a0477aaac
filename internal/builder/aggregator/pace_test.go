package aggregator

import (
	"context"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
)

// starting lists a worker that starts as old as it is, and ends the aggregator with the last of so many lists.
type starting struct {
	since time.Time
	asked []time.Time
	last  int
	end   func()
}

func (s *starting) Workers(context.Context) ([]Worker, error) {
	if s.asked = append(s.asked, time.Now()); len(s.asked) == s.last {
		s.end()
	}
	return []Worker{{Build: 1, Status: build.WorkerPending, Age: time.Since(s.since)}}, nil
}

// TestAWorkerThatStartsIsListedOften while it is young.
func TestAWorkerThatStartsIsListedOften(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		age         time.Duration
		lists       int
		least, most time.Duration // from the first to the last list
	}{{0, 11, 500 * time.Millisecond, time.Second}, {time.Hour, 2, 8 * time.Second, 10 * time.Second}} {
		bubbletest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			list := &starting{since: time.Now().Add(-c.age), last: c.lists, end: cancel}
			if err := New(Config{Workers: list, Every: 10 * time.Second}).Run(ctx); err != nil {
				t.Fatal(err)
			}
			if took := list.asked[c.lists-1].Sub(list.asked[0]); took < c.least || took > c.most {
				t.Errorf("a worker of the age %s is listed %d times in %s, want %s to %s", c.age, c.lists, took, c.least, c.most)
			}
		})
	}
}

// deaf lists no worker, and does not answer at first.
type deaf struct{ asked int }

func (d *deaf) Workers(ctx context.Context) ([]Worker, error) {
	if d.asked++; d.asked == 1 {
		<-ctx.Done()
	}
	return nil, context.Cause(ctx)
}

// TestAListThatDoesNotComeIsAskedForAgain, so that new workers are found.
func TestAListThatDoesNotComeIsAskedForAgain(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		list := &deaf{}
		if err := New(Config{Workers: list}).Run(ctx); err != nil || list.asked < 2 {
			t.Errorf("asked %d times, %v", list.asked, err)
		}
	})
}

// TestAWholeBlockIsStoredSooner than a few entries.
func TestAWholeBlockIsStoredSooner(t *testing.T) {
	t.Parallel()
	for size, want := range map[int64]time.Duration{100: writeEvery, builds.BlockSize: writeSoon, mostAtOnce: 0} {
		bubbletest.Test(t, func(t *testing.T) {
			w := newWriter(&follower{Aggregator: New(Config{})})
			w.began = time.Now()
			for _, half := range []int64{size / 2, size - size/2} {
				if err := w.put(t.Context(), item{}, half); err != nil {
					t.Fatal(err)
				}
			}
			var p pending
			if w.gather(t.Context(), &p); p.size != size || time.Since(w.began) != want {
				t.Errorf("%d bytes of %d are stored after %s, want %s", p.size, size, time.Since(w.began), want)
			}
		})
	}
}
