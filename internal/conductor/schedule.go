package conductor

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/cron"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/queue"
)

// Schedule creates an action at each tick of a cron schedule.
type Schedule struct {
	Name   string
	Window cron.Schedule
	Action action.Action // the action that each tick creates, without its id
}

// Ticks creates the actions of schedules.
type Ticks interface {
	Now(ctx context.Context) (time.Time, error)
	Tick(ctx context.Context, schedule string, at time.Time, a action.Action) (queue.Enqueued, error)
	LastTick(ctx context.Context, a action.Action) (queue.ActionState, cron.Past, error)
	Cancel(ctx context.Context, id action.ID, mode queue.CancelMode) error
}

const (
	// longestSleep bounds the sleep until a tick. Ticks are due by the database's clock, and this
	// machine's clock may jump.
	longestSleep = time.Minute
	turnEvery    = time.Second // between looks at a running action that the next tick waits for
	// staleTick is the age at which a tick without a partition is skipped: partitions are not added
	// for times so long ago.
	staleTick = 24 * time.Hour
)

// ticker creates the actions of schedules. Every instance has one. All compute the same ticks and
// derive the same ids from them, so the ledger creates each action once.
type ticker struct {
	*Conductor
	known map[string]*ticking // by the schedule's name
	away  loop.Backoff
}

// ticking is an instance's memory of a schedule. It may be lost at any time: which ticks have happened is in the
// ledger.
type ticking struct {
	since   time.Time    // time at which this instance first saw the schedule
	next    time.Time    // time of the schedule's next check; nothing is due before
	skipped time.Time    // the last tick for which no partition exists; later ticks are still made
	away    loop.Backoff // back-off of this schedule alone, so that one that fails delays no other
}

// ticks looks at the schedules whenever one may be due, until ctx ends.
func (c *Conductor) ticks(ctx context.Context) {
	t := ticker{Conductor: c, known: map[string]*ticking{}}
	for ctx.Err() == nil {
		sleep := t.look(ctx)
		timer := time.NewTimer(sleep)
		select {
		case <-timer.C:
		case <-c.rescheduled:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// look handles the schedules that are due, and returns the time until the next look.
func (t *ticker) look(ctx context.Context) time.Duration {
	schedules := t.table.Load().Schedules
	if len(schedules) == 0 {
		return time.Hour // Serve wakes this loop when it brings schedules
	}
	now, err := t.ledger.Now(ctx)
	if err != nil {
		return retryIn(ctx, t.log.With(obs.KeyDoing, "read the time for schedules", obs.KeyName, ""), &t.away, err)
	}
	t.away.Reset()
	sleep, named := longestSleep, map[string]bool{}
	for _, s := range schedules {
		named[s.Name] = true
		memory := t.known[s.Name]
		if memory == nil {
			memory = &ticking{since: now, next: now}
			t.known[s.Name] = memory
		}
		if !memory.next.After(now) {
			t.due(ctx, s, memory, now)
		}
		if !memory.next.IsZero() {
			sleep = min(sleep, memory.next.Sub(now))
		}
	}
	for name := range t.known {
		if !named[name] {
			delete(t.known, name)
		}
	}
	return max(sleep, minDue)
}

// due handles one schedule. After an error the schedule waits: for its back-off if the database was
// unavailable, else for longestSleep, since an immediate retry would fail the same way.
func (t *ticker) due(ctx context.Context, s Schedule, memory *ticking, now time.Time) {
	err := t.tick(ctx, s, memory, now)
	if err == nil {
		memory.away.Reset()
		return
	}
	delay := retryIn(ctx, t.log.With(obs.KeyDoing, "make an action", obs.KeyName, s.Name), &memory.away, err)
	if !loop.Passing(err) {
		delay = longestSleep
	}
	memory.next = now.Add(delay)
}

// tick creates the action of a schedule that is due, and first cancels the one before if the
// schedule replaces it. cron.Schedule.Due decides which of several missed ticks counts.
func (t *ticker) tick(ctx context.Context, s Schedule, memory *ticking, now time.Time) error {
	last, past, err := t.ledger.LastTick(ctx, s.Action)
	if err != nil {
		return err
	}
	if memory.skipped.After(past.At) { // the ledger has no action of a skipped tick
		past.At = memory.skipped
	}
	due := s.Window.Due(past, memory.since, now)
	if due.Replace {
		err := t.ledger.Cancel(ctx, last.ID, queue.CancelNow)
		if err != nil && !fault.Is(err, fault.Terminal) { // terminal: it has ended on its own in the meantime
			return err
		}
	}
	var made queue.Enqueued
	if !due.Tick.IsZero() {
		made, err = t.ledger.Tick(ctx, s.Name, due.Tick, s.Action)
		if errors.Is(err, queue.ErrNoPartition) && now.Sub(due.Tick) > staleTick {
			t.log.Warn("tick skipped", obs.KeyName, s.Name, obs.KeyTick, due.Tick.In(s.Window.Zone).Format(time.RFC3339), obs.Error(err))
			memory.skipped, memory.next = due.Tick, now
			return nil
		}
		if err != nil {
			return err
		}
	}
	memory.next = s.Window.Cron.Next(now, s.Window.Zone)
	if due.Waiting > 0 && memory.next.After(now.Add(turnEvery)) {
		memory.next = now.Add(turnEvery)
	}
	if made.Created {
		t.log.Info("scheduled", obs.KeyName, s.Name, obs.KeyActionID, made.ID.String(), obs.KeyTick,
			due.Tick.In(s.Window.Zone).Format(time.RFC3339))
	}
	return nil
}

// retryIn logs an error and returns the delay before the next try.
func retryIn(ctx context.Context, log *slog.Logger, away *loop.Backoff, err error) time.Duration {
	delay := away.Next()
	if ctx.Err() == nil {
		log.Warn("schedule failed", obs.Error(err), obs.KeyRetryIn, delay.String())
	}
	return delay
}
