package conductor_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the zones are the same on every machine

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/cron"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
)

// Ticks of a fake: its clock may differ from this machine's.

func (f *fake) Now(context.Context) (time.Time, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away {
		return time.Time{}, fault.New(fault.LedgerUnavailable, "away")
	}
	return time.Now().UTC().Add(f.ahead), nil
}

func (f *fake) Tick(_ context.Context, schedule string, at time.Time, a action.Action) (queue.Enqueued, error) {
	a.ID = action.DerivedID(at, "schedule", schedule)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuseTick != nil {
		if err := f.refuseTick(schedule, at); err != nil {
			return queue.Enqueued{}, err
		}
	}
	if _, there := f.rows[a.ID]; there {
		return queue.Enqueued{ID: a.ID}, nil
	}
	a.Lane, a.CreatedAt = a.Handler, at
	f.put(&row{action: a, Thread: action.Thread{Status: action.Pending}})
	f.poke(store.TopicReady)
	return queue.Enqueued{ID: a.ID, Created: true}, nil
}

func (f *fake) LastTick(_ context.Context, a action.Action) (queue.ActionState, cron.Past, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var last *row
	for _, r := range f.rows {
		if r.action.Name == a.Name && (last == nil || r.action.ID.Time().After(last.action.ID.Time())) {
			last = r
		}
	}
	if last == nil {
		return queue.ActionState{}, cron.Past{}, nil
	}
	past := cron.Past{At: last.action.ID.Time(), Lives: last.Status.Live()}
	if !past.Lives {
		past.Ended = last.ended.Add(f.ahead).UTC()
	}
	return queue.ActionState{Action: last.action, Thread: last.Thread}, past, nil
}

func (f *fake) Cancel(_ context.Context, id action.ID, _ queue.CancelMode) error {
	f.askCancel(id)
	return nil
}

// ticks lists the times at which a schedule led to an action, by the fake's clock, oldest first.
func (f *fake) ticks(name string, zone *time.Location) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var times []string
	for _, r := range f.rows {
		if r.action.Name == name {
			times = append(times, r.action.ID.Time().In(zone).Format("01-02 15:04 MST"))
		}
	}
	slices.Sort(times)
	return times
}

func stockholm(t *testing.T) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation("Europe/Stockholm")
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

func schedule(t *testing.T, name, text string, overlap cron.Overlap, catchUp cron.CatchUp) conductor.Schedule {
	t.Helper()
	c, err := cron.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return conductor.Schedule{Name: name, Action: action.Action{Name: name, Handler: "work"},
		Window: cron.Schedule{Cron: c, Zone: stockholm(t), Overlap: overlap, CatchUp: catchUp}}
}

// conducted runs a conductor with schedules; the fake's clock shows start.
func conducted(t *testing.T, f *fake, do doer, schedules ...conductor.Schedule) (stop func()) {
	t.Helper()
	handlers := map[string]conductor.Handler{"work": do}
	f.set(func() { f.poll = time.Minute }) // days pass
	c := conductor.New(f, conductor.Config{Instance: queue.Instance{Heartbeat: time.Minute}, Workers: 10, Handlers: handlers})
	c.Serve(conductor.Table{Handlers: handlers, Schedules: schedules})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func (f *fake) setClock(t *testing.T, text string) {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	f.ahead = time.Until(at)
	f.mu.Unlock()
}

func at(d time.Duration) doer {
	return func(ctx context.Context, _ conductor.Attempt) action.Outcome {
		select {
		case <-time.After(d):
			return done()
		case <-ctx.Done():
			return action.Outcome{Kind: action.Stopped}
		}
	}
}

func TestSchedulesFollowTheWall(t *testing.T) {
	for name, c := range map[string]struct {
		start string
		want  []string
	}{
		"clocks go forward": {"2026-03-27T23:00:00Z", []string{"03-28 02:30 CET", "03-29 03:00 CEST", "03-30 02:30 CEST"}},
		"clocks go back":    {"2026-10-23T22:00:00Z", []string{"10-24 02:30 CEST", "10-25 02:30 CEST", "10-26 02:30 CET"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				f := newFake()
				f.setClock(t, c.start)
				s := schedule(t, "nightly", "30 2 * * *", cron.Skip, cron.CatchLast)
				stop, other := conducted(t, f, at(time.Second), s), conducted(t, f, at(time.Second), s)
				settle(52 * time.Hour)
				stop()
				other()
				if diff := cmp.Diff(c.want, f.ticks("nightly", stockholm(t))); diff != "" {
					t.Errorf("ticks (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestOverlapIsSkippedQueuedOrReplaced(t *testing.T) {
	for overlap, want := range map[cron.Overlap]struct {
		ticks             string
		ended, canceled   int
		atATime, queuedBy int
	}{
		cron.Skip:    {"10:10 10:40 11:10", 2, 0, 1, 0},
		cron.Queue:   {"10:10 10:20 10:30", 2, 0, 1, 0},
		cron.Replace: {"10:10 10:20 10:30 10:40 10:50 11:00 11:10", 0, 6, 1, 0},
	} {
		t.Run(string(overlap), func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				f := newFake()
				f.setClock(t, "2026-01-10T09:05:00Z")
				stop := conducted(t, f, at(25*time.Minute), schedule(t, "often", "*/10 * * * *", overlap, cron.CatchLast))
				settle(67 * time.Minute)
				var short []string
				for _, tick := range f.ticks("often", stockholm(t)) {
					short = append(short, strings.Fields(tick)[1])
				}
				if got := strings.Join(short, " "); got != want.ticks {
					t.Errorf("ticks %s, want %s", got, want.ticks)
				}
				if f.count(action.Successful) != want.ended || f.count(action.Canceled) != want.canceled {
					t.Errorf("%d ended and %d canceled, want %d and %d", f.count(action.Successful), f.count(action.Canceled), want.ended, want.canceled)
				}
				stop()
			})
		})
	}
}

func TestMissedTicksAreMadeUpFor(t *testing.T) {
	for catchUp, want := range map[cron.CatchUp]string{
		cron.CatchLast: "10:00 14:00 15:00", cron.CatchNone: "10:00 15:00", cron.CatchAll: "10:00 11:00 12:00 13:00 14:00 15:00",
	} {
		t.Run(string(catchUp), func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				f := newFake()
				f.setClock(t, "2026-01-10T08:30:00Z")
				s := schedule(t, "hourly", "@hourly", cron.Queue, catchUp)
				stop := conducted(t, f, at(time.Second), s)
				settle(time.Hour)
				stop()
				settle(4 * time.Hour) // no conductor runs until 14:30
				stop = conducted(t, f, at(time.Second), s)
				settle(time.Hour)
				stop()
				var short []string
				for _, tick := range f.ticks("hourly", stockholm(t)) {
					short = append(short, strings.Fields(tick)[1])
				}
				if got := strings.Join(short, " "); got != want {
					t.Errorf("ticks %s, want %s", got, want)
				}
			})
		})
	}
}

// TestSchedulesOutliveTheLedger: while the ledger is away nothing is lost, a schedule whose action
// it refuses holds up no other, and one that a reload brings makes up for nothing.
func TestSchedulesOutliveTheLedger(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		f.setClock(t, "2026-01-10T08:55:00Z")
		handlers := map[string]conductor.Handler{"work": at(time.Second)}
		c := conductor.New(f, conductor.Config{Workers: 10, Handlers: handlers})
		one := schedule(t, "one", "@hourly", cron.Skip, cron.CatchNone)
		c.Serve(conductor.Table{Handlers: handlers, Schedules: []conductor.Schedule{one}})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		settle(time.Minute)
		f.set(func() { f.away = true })
		settle(10 * time.Minute) // 10:06 in Stockholm: the tick of 10:00 is late, and not missed
		if got := f.ticks("one", time.UTC); len(got) != 0 {
			t.Errorf("made without a ledger: %v", got)
		}
		f.set(func() { f.away, f.refuseTick = false, func(string, time.Time) error { return errors.New("refused") } })
		settle(2 * time.Minute)
		f.set(func() { f.refuseTick = nil })
		c.Serve(conductor.Table{Handlers: handlers,
			Schedules: []conductor.Schedule{one, schedule(t, "two", "@hourly", cron.Queue, cron.CatchAll)}})
		settle(5 * time.Minute)
		if diff := cmp.Diff([]string{"01-10 10:00 CET"}, f.ticks("one", stockholm(t))); diff != "" {
			t.Errorf("late (-want +got):\n%s", diff)
		}
		if got := f.ticks("two", time.UTC); len(got) != 0 {
			t.Errorf("a new schedule made up for %v", got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// TestARefusedTickDelaysNoOtherSchedule: the refusal is one that passes, such as a partition that
// is missing.
func TestARefusedTickDelaysNoOtherSchedule(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		f.setClock(t, "2026-01-10T08:55:00Z")
		f.refuseTick = func(schedule string, _ time.Time) error {
			if schedule == "first" {
				return fault.New(fault.LedgerUnavailable, "%w", queue.ErrNoPartition)
			}
			return nil
		}
		stop := conducted(t, f, at(time.Second), schedule(t, "first", "@hourly", cron.Skip, cron.CatchLast),
			schedule(t, "second", "@hourly", cron.Skip, cron.CatchLast))
		settle(70 * time.Minute)
		if diff := cmp.Diff([]string{"01-10 10:00 CET", "01-10 11:00 CET"}, f.ticks("second", stockholm(t))); diff != "" {
			t.Errorf("ticks (-want +got):\n%s", diff)
		}
		f.set(func() { f.refuseTick = nil })
		settle(10 * time.Second)
		if got := f.ticks("first", stockholm(t)); len(got) != 1 {
			t.Errorf("the refused schedule made %v once it could", got)
		}
		stop()
	})
}

// TestTicksWithoutAPartitionAreSkipped: what is caught up with begins where there are partitions.
func TestTicksWithoutAPartitionAreSkipped(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		f.setClock(t, "2026-01-10T08:30:00Z")
		s := schedule(t, "daily", "@daily", cron.Queue, cron.CatchAll)
		stop := conducted(t, f, at(time.Second), s)
		settle(24 * time.Hour)
		stop()
		settle(10 * 24 * time.Hour)
		oldest := time.Now().Add(f.ahead).Add(-3 * 24 * time.Hour)
		f.set(func() {
			f.refuseTick = func(_ string, at time.Time) error {
				if at.Before(oldest) {
					return fault.New(fault.LedgerUnavailable, "%w", queue.ErrNoPartition)
				}
				return nil
			}
		})
		stop = conducted(t, f, at(time.Second), s)
		settle(time.Minute)
		stop()
		want := []string{"01-11 00:00 CET", "01-19 00:00 CET", "01-20 00:00 CET", "01-21 00:00 CET"}
		if diff := cmp.Diff(want, f.ticks("daily", stockholm(t))); diff != "" {
			t.Errorf("ticks (-want +got):\n%s", diff)
		}
	})
}
