package ledgertest

import (
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

func ticksMakeOneAction(t *testing.T, s setup) {
	const callers = 8
	now, err := s.Now(s.ctx)
	storetest.Check(t, err)
	tick := now.Truncate(time.Minute)
	a := job("nightly")
	a.CreatedBy, a.Policy.Deadline = "schedule:nightly", action.Duration(time.Hour)
	if last, past, err := s.LastTick(s.ctx, a); err != nil || !last.ID.IsZero() || !past.At.IsZero() {
		t.Errorf("before the first: %+v, %v", past, err)
	}
	var all sync.WaitGroup
	made := make([]queue.Enqueued, callers)
	for i := range callers {
		all.Go(func() {
			var err error
			if made[i], err = s.Tick(s.ctx, "nightly", tick.Add(-2*time.Hour), a); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	created := 0
	for _, m := range made {
		if m.ID != made[0].ID {
			t.Errorf("ids differ: %s, %s", m.ID, made[0].ID)
		}
		if m.Created {
			created++
		}
	}
	if created != 1 {
		t.Errorf("%d were created", created)
	}
	other := a
	other.CreatedBy = "ana"
	s.enqueue(t, other)
	last, past, err := s.LastTick(s.ctx, a)
	storetest.Check(t, err)
	if last.ID != made[0].ID || !past.At.Equal(tick.Add(-2*time.Hour)) || !past.Lives {
		t.Errorf("last %s, %+v", last.ID, past)
	}
	if d := last.Thread.Deadline; d.Before(now) {
		t.Errorf("a tick that is made up for late has its deadline at %s, before it was stored", d)
	}
	storetest.Check(t, s.Cancel(s.ctx, last.ID, queue.CancelNow))
	if again, err := s.Tick(s.ctx, "nightly", tick.Add(-2*time.Hour), a); err != nil || again.Created {
		t.Errorf("an ended tick was made again: %+v, %v", again, err)
	}
	second, err := s.Tick(s.ctx, "nightly", tick.Add(-time.Hour), a)
	storetest.Check(t, err)
	last, past, err = s.LastTick(s.ctx, a)
	storetest.Check(t, err)
	if last.ID != second.ID || !past.Lives {
		t.Errorf("then %s, %+v", last.ID, past)
	}
}
