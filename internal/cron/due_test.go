package cron_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/waybill-dev/waybill/internal/cron"
)

func TestDue(t *testing.T) {
	t.Parallel()
	clock := func(text string) time.Time {
		if text == "" {
			return time.Time{}
		}
		at, err := time.Parse("15:04", text)
		if err != nil {
			t.Fatal(err)
		}
		return at.AddDate(2026, 0, 0)
	}
	type ways struct {
		overlap cron.Overlap
		catchUp cron.CatchUp
	}
	skip, queue := ways{cron.Skip, cron.CatchLast}, ways{cron.Queue, cron.CatchLast}
	for _, c := range []struct {
		name             string
		ways             ways
		last, ended      string // ended "" with last: it lives
		since, now, want string
		waiting          int
		replace          bool
	}{
		{"a new schedule waits for its first time", skip, "", "", "10:30", "10:45", "", 0, false},
		{"the first time", skip, "", "", "10:30", "11:00", "11:00", 0, false},
		{"a new schedule makes up for nothing", ways{cron.Queue, cron.CatchAll}, "", "", "10:30", "10:30", "", 0, false},
		{"the next time", skip, "10:00", "10:01", "09:30", "11:00", "11:00", 0, false},
		{"not twice", skip, "11:00", "11:01", "09:30", "11:30", "", 0, false},
		{"the one before lives", skip, "10:00", "", "09:30", "11:00", "", 0, false},
		{"the one before lived then", skip, "10:00", "11:20", "09:30", "11:30", "", 0, false},
		{"it ended on the minute", skip, "10:00", "11:00", "09:30", "11:00", "", 0, false},
		{"skipped, then the next", skip, "10:00", "11:20", "09:30", "12:00", "12:00", 0, false},
		{"no instance ran: the last one", skip, "07:00", "07:01", "10:30", "10:30", "10:00", 0, false},
		{"no instance ran: none", ways{cron.Skip, cron.CatchNone}, "07:00", "07:01", "10:30", "10:30", "", 0, false},
		{"no instance ran, then one", ways{cron.Skip, cron.CatchNone}, "07:00", "07:01", "10:30", "11:00", "11:00", 0, false},
		{"no instance ran: all", ways{cron.Queue, cron.CatchAll}, "07:00", "07:01", "10:30", "10:30", "08:00", 2, false},
		{"queue: one after another", queue, "08:00", "", "07:30", "10:30", "", 2, false},
		{"queue: its turn", queue, "08:00", "10:20", "07:30", "10:30", "09:00", 1, false},
		{"queue after a restart: what waited still does", queue, "08:00", "10:20", "10:30", "10:40", "09:00", 1, false},
		{"queue: waited, missed and in time", queue, "05:00", "06:30", "09:30", "10:00", "06:00", 2, false},
		{"queue, none: what waited still does", ways{cron.Queue, cron.CatchNone}, "05:00", "06:30", "09:30", "10:00", "06:00", 1, false},
		{"replace", ways{cron.Replace, cron.CatchLast}, "10:00", "", "09:30", "11:00", "11:00", 0, true},
		{"replace what ended", ways{cron.Replace, cron.CatchLast}, "10:00", "10:59", "09:30", "11:00", "11:00", 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := cron.Schedule{Cron: parse(t, "@hourly"), Zone: time.UTC, Overlap: c.ways.overlap, CatchUp: c.ways.catchUp}
			past := cron.Past{At: clock(c.last), Ended: clock(c.ended), Lives: c.last != "" && c.ended == ""}
			got := s.Due(past, clock(c.since), clock(c.now))
			want := cron.Due{Tick: clock(c.want), Waiting: c.waiting, Replace: c.replace}
			if got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// TestTicksAreMadeOnceInOrder: however often, at what moments and by how many processes with
// memories of their own a schedule is looked at, each of its ticks is made at most once and in
// order, never two at a time where they must not overlap, and after a look in time nothing that is
// due is left undone.
func TestTicksAreMadeOnceInOrder(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		s := cron.Schedule{Cron: parse(t, rapid.SampledFrom([]string{"* * * * *", "*/5 * * * *", "@hourly"}).Draw(t, "cron")), Zone: time.UTC,
			Overlap: rapid.SampledFrom([]cron.Overlap{cron.Skip, cron.Queue, cron.Replace}).Draw(t, "overlap"),
			CatchUp: rapid.SampledFrom([]cron.CatchUp{cron.CatchLast, cron.CatchNone, cron.CatchAll}).Draw(t, "catchUp")}
		now, past := begin, cron.Past{}
		since := begin
		for range rapid.IntRange(1, 60).Draw(t, "looks") {
			now = now.Add(time.Duration(rapid.IntRange(1, 5400).Draw(t, "seconds")) * time.Second)
			switch rapid.IntRange(0, 4).Draw(t, "event") {
			case 0:
				since = now // an instance starts
			case 1, 2:
				if past.Lives {
					past.Lives, past.Ended = false, now
				}
			}
			due := s.Due(past, since, now)
			if again := s.Due(past, since, now); again != due {
				t.Fatalf("asked twice: %+v, %+v", due, again)
			}
			if due.Tick.IsZero() {
				continue
			}
			if due.Tick.After(now) || !due.Tick.After(past.At) || !s.Cron.Next(due.Tick.Add(-time.Minute), time.UTC).Equal(due.Tick) {
				t.Fatalf("at %s after %s: %+v", now, past.At, due)
			}
			if past.Lives && (s.Overlap != cron.Replace || !due.Replace) {
				t.Fatalf("two at a time: %+v", due)
			}
			if s.Overlap == cron.Skip && !due.Tick.After(past.Ended) {
				t.Fatalf("%s is in the time of its forerunner, which ended %s", due.Tick, past.Ended)
			}
			past = cron.Past{At: due.Tick, Lives: true}
		}
	})
}

// TestMissedTicksAreBounded: a year of minutes is a thousand ticks at most.
func TestMissedTicksAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 0, 0, 30, 0, time.UTC)
	s := cron.Schedule{Cron: parse(t, "* * * * *"), Zone: time.UTC, Overlap: cron.Queue, CatchUp: cron.CatchAll}
	past := cron.Past{At: now.AddDate(-1, 0, 0).Truncate(time.Minute), Ended: now.AddDate(-1, 0, 0)}
	got := s.Due(past, now, now)
	if want := now.Truncate(time.Minute).Add(-(cron.MostMissed - 1) * time.Minute); !got.Tick.Equal(want) || got.Waiting != cron.MostMissed-1 {
		t.Errorf("got %+v, want the tick of %s", got, want)
	}
}
