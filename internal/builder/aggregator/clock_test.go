package aggregator_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/aggregator"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/store"
)

// TestClocksDiffer: the worker's clock is hours ahead, and is then set back to hours behind. Ids give the order, and the lease is the
// database's.
func TestClocksDiffer(t *testing.T) {
	forEach(t, clocksDiffer)
}

func clocksDiffer(t *testing.T, url string) {
	w := newWorld(t, url)
	w.aggregate()
	w.skew = 5 * time.Hour
	w.update(0, build.Scheduling)
	w.print(0, 3)
	w.update(0, build.Running)
	for _, step := range []int{1, 2} {
		w.update(step, build.Scheduling)
		w.update(step, build.Running)
		w.print(step, 2000)
		w.skew = -5 * time.Hour
		w.print(step, 2000)
		w.artifact(step, "out/a.zip", 1000)
		w.tests(step)
		w.update(step, build.Completed)
	}
	w.update(0, build.Completed)
	w.taken()
	w.check()
	b, err := w.Build(t.Context(), w.id)
	w.must(err)
	now, err := store.Now(t.Context(), w.db)
	w.must(err)
	for name, at := range map[string]time.Time{"creation": b.CreatedAt, "progress": b.LastProgressAt,
		"lease": b.LeaseUntil, "acknowledgement": b.AcknowledgedAt} {
		if now.Sub(at).Abs() > time.Hour {
			t.Errorf("the %s is at %s; the database has %s", name, at, now)
		}
	}
	if b.StartedAt.Before(b.EndedAt) {
		t.Errorf("the build ran from %s to %s; the worker's clock was set back", b.StartedAt, b.EndedAt)
	}
}

// TestAListThatFlapsLosesNothing: whenever something was stored the worker is not listed, then the list cannot be read.
func TestAListThatFlapsLosesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, filepath.Join(t.TempDir(), "waybill.db"))
	workers := &flapping{Store: w.Builds, worker: w.worker()}
	w.aggregate(func(c *aggregator.Config) { c.Workers, c.Store, c.Every = workers, workers, 10*time.Millisecond })
	w.build(30_000)
	w.taken()
	w.check()
	if workers.flaps.Load() == 0 {
		t.Error("the worker was always listed")
	}
}

// flapping is a list of one worker that is gone and then an error after each transaction.
type flapping struct {
	aggregator.Store
	worker        aggregator.Worker
	stored, flaps atomic.Int64
	next          []func() ([]aggregator.Worker, error) // by the goroutine of Run alone
	seen          int64
}

func (f *flapping) Ingest(ctx context.Context, id builds.ID, b builds.Batch) (builds.Ingested, error) {
	done, err := f.Store.Ingest(ctx, id, b)
	if len(b.Logs) > 0 && err == nil {
		f.stored.Add(1)
	}
	return done, err
}

func (f *flapping) Workers(context.Context) ([]aggregator.Worker, error) {
	if n := f.stored.Load(); len(f.next) == 0 && n > f.seen {
		f.seen = n
		f.flaps.Add(1)
		f.next = []func() ([]aggregator.Worker, error){
			func() ([]aggregator.Worker, error) { return nil, nil },
			func() ([]aggregator.Worker, error) { return nil, errors.New("the list cannot be read") },
		}
	}
	if len(f.next) > 0 {
		answer := f.next[0]
		f.next = f.next[1:]
		return answer()
	}
	return []aggregator.Worker{f.worker}, nil
}
