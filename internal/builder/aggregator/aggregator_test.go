package aggregator_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/aggregator"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/obs"
)

func TestABuildIsCopiedWhileItRuns(t *testing.T) {
	forEach(t, func(t *testing.T, url string) {
		w := newWorld(t, url)
		w.aggregate()
		w.build(3000)
		w.taken()
		w.check()
	})
}

func TestABuildIsCopiedAfterItsEnd(t *testing.T) {
	forEach(t, func(t *testing.T, url string) {
		w := newWorld(t, url)
		w.build(20_000)
		registry := obs.NewRegistry()
		stop := w.aggregate(func(c *aggregator.Config) { c.Metrics = obs.NewAggregator(registry) })
		w.taken()
		w.check()
		stop()
		measured := map[string]float64{}
		families, err := registry.Gather()
		w.must(err)
		for _, f := range families {
			for _, m := range f.GetMetric() {
				measured[f.GetName()] = m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
		if got, there := measured["waybill_aggregator_lag_bytes"]; got != 0 || !there {
			t.Errorf("%v bytes are behind after the end", got)
		}
		if got := measured["waybill_aggregator_lag_seconds"]; got == 0 {
			t.Error("no transaction was measured")
		}
	})
}

// TestConnectionsAreCutAnywhere: each connection is cut after another number of bytes, in the middle of streams and downloads.
func TestConnectionsAreCutAnywhere(t *testing.T) {
	forEach(t, func(t *testing.T, url string) {
		w := newWorld(t, url)
		random := seeded(t)
		var cuts []int
		for at := range 150 {
			cuts = append(cuts, 1+at*11)
		}
		for range 150 {
			cuts = append(cuts, 1+random.IntN(300_000))
		}
		w.proxy.CutAt(cuts...)
		w.aggregate()
		w.build(5000)
		w.taken()
		w.check()
	})
}

// seeded returns numbers by a seed that the test prints.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// TestAggregatorsAreReplacedAtRandom: an aggregator is stopped after a random number of transactions, in the middle
// of one, and another takes over.
func TestAggregatorsAreReplacedAtRandom(t *testing.T) {
	forEach(t, func(t *testing.T, url string) {
		w := newWorld(t, url)
		random := seeded(t)
		w.build(10_000)
		for range 40 {
			stopped := make(chan struct{})
			limit := &limited{Store: w.Builds, left: random.IntN(4), reached: stopped, after: random.IntN(2) == 0}
			stop := w.aggregate(func(c *aggregator.Config) { c.Store = limit })
			select {
			case <-stopped:
			case <-w.server.Acknowledged():
			}
			stop()
		}
		w.aggregate()
		w.taken()
		w.check()
	})
}

// limited is a store that stops after some transactions: before or after the last one was committed.
type limited struct {
	aggregator.Store
	left    int
	reached chan struct{}
	after   bool
	done    atomic.Bool
}

func (l *limited) Ingest(ctx context.Context, id builds.ID, b builds.Batch) (builds.Ingested, error) {
	if l.left--; l.left >= 0 {
		return l.Store.Ingest(ctx, id, b)
	}
	if l.after {
		_, _ = l.Store.Ingest(ctx, id, b) // and the answer is lost
	}
	if !l.done.Swap(true) {
		close(l.reached)
	}
	<-ctx.Done()
	return builds.Ingested{}, context.Cause(ctx)
}

// TestTwoAggregatorsAtOnce: several follow the same worker, and their connections are cut.
func TestTwoAggregatorsAtOnce(t *testing.T) {
	forEach(t, func(t *testing.T, url string) {
		w := newWorld(t, url)
		random := seeded(t)
		var cuts []int
		for range 60 {
			cuts = append(cuts, 1000+random.IntN(400_000))
		}
		w.proxy.CutAt(cuts...)
		for range 3 {
			w.aggregate()
		}
		w.build(8000)
		w.taken()
		w.check()
	})
}

// TestTheDatabaseIsAwayForAWhile: the end of a build comes while no transaction succeeds.
func TestTheDatabaseIsAwayForAWhile(t *testing.T) {
	forEach(t, func(t *testing.T, url string) {
		w := newWorld(t, url)
		away := &away{Store: w.Builds, refused: make(chan struct{}, 100)}
		w.aggregate(func(c *aggregator.Config) { c.Store = away })
		w.update(0, build.Scheduling)
		away.gone.Store(true)
		w.update(0, build.Running)
		for _, step := range []int{1, 2} {
			w.update(step, build.Running)
			w.print(step, 30_000)
			w.tests(step)
			w.update(step, build.Completed)
		}
		w.print(0, 1)
		w.update(0, build.Completed)
		for range 10 {
			<-away.refused
		}
		away.gone.Store(false)
		w.taken()
		w.check()
	})
}

// away is a store whose database is not there for a while.
type away struct {
	aggregator.Store
	gone    atomic.Bool
	refused chan struct{}
}

func (a *away) err() error {
	if !a.gone.Load() {
		return nil
	}
	select {
	case a.refused <- struct{}{}:
	default:
	}
	return fault.New(fault.LedgerUnavailable, "the database is away")
}

func (a *away) Ingest(ctx context.Context, id builds.ID, b builds.Batch) (builds.Ingested, error) {
	if err := a.err(); err != nil {
		return builds.Ingested{}, err
	}
	return a.Store.Ingest(ctx, id, b)
}

func (a *away) Progress(ctx context.Context, id builds.ID) (builds.Progress, error) {
	if err := a.err(); err != nil {
		return builds.Progress{}, err
	}
	return a.Store.Progress(ctx, id)
}

// TestASilentWorkerIsAskedAgain: a connection that brings nothing counts as dead, and no line is lost.
func TestASilentWorkerIsAskedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, filepath.Join(t.TempDir(), "waybill.db"))
	w.proxy.Stall(2)
	w.build(100)
	w.aggregate(func(c *aggregator.Config) { c.Silence = 2 * time.Second })
	w.taken()
	w.check()
	if n := w.proxy.Connections(); n < 3 {
		t.Errorf("the worker was asked on %d connections", n)
	}
}

// TestALostBuildsWorkerIsAcknowledged: its results are kept as evidence, and its state stays.
func TestALostBuildsWorkerIsAcknowledged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, filepath.Join(t.TempDir(), "waybill.db"))
	if _, err := w.Record(t.Context(), w.id, builds.Event{Source: builds.Watchdog, EventID: "lost", Status: build.Lost}); err != nil {
		t.Fatal(err)
	}
	w.build(100)
	w.aggregate()
	w.taken()
	for step := range 3 {
		w.checkLog(step)
	}
	if b, err := w.Build(t.Context(), w.id); err != nil || b.Status != build.Lost || b.Final == nil {
		t.Errorf("the build is %+v, %v", b, err)
	}
}

// TestAWrongTokenStoresNothing: the worker refuses, and the aggregator repeats the request until it is not listed.
func TestAWrongTokenStoresNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, filepath.Join(t.TempDir(), "waybill.db"))
	w.build(10)
	workers := &list{asked: make(chan struct{}, 1)}
	wrong := w.worker()
	wrong.Token = "another"
	workers.set(wrong)
	stop := w.aggregate(func(c *aggregator.Config) { c.Workers = workers })
	for w.proxy.Connections() < 3 {
		<-workers.asked
	}
	workers.set()
	<-workers.asked
	stop()
	if p, err := w.Progress(t.Context(), w.id); err != nil || p.Events != 0 || len(p.Logs) != 0 {
		t.Errorf("the progress is %+v, %v", p, err)
	}
}

// TestAWorkerIsFollowedToAnotherAddress: the list names another place, such as a port that was forwarded again.
func TestAWorkerIsFollowedToAnotherAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t, filepath.Join(t.TempDir(), "waybill.db"))
	w.build(100)
	workers, elsewhere := &list{asked: make(chan struct{}, 1)}, w.worker()
	elsewhere.Address = "http://127.0.0.1:1"
	workers.set(elsewhere)
	w.aggregate(func(c *aggregator.Config) { c.Workers = workers })
	for range 3 {
		<-workers.asked
	}
	workers.set(w.worker())
	w.taken()
	w.check()
}

// TestADamagedArtifactIsReported: the file has changed on the worker's disk. The build ends all the same, and reports
// it.
func TestADamagedArtifactIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, filepath.Join(t.TempDir(), "waybill.db"))
	w.build(10)
	artifacts, err := w.reader.Artifacts()
	w.must(err)
	for i, change := range []func(path string) error{
		func(path string) error { return os.WriteFile(path, make([]byte, 200_000), 0o600) },
		func(path string) error { return os.Truncate(path, 100) },
	} {
		w.must(change(filepath.Join(filepath.Dir(w.reader.LogPath(artifacts[i*2].Step)), artifacts[i*2].Path)))
	}
	w.aggregate()
	w.taken()
	found, err := w.Artifacts(t.Context(), w.id, 0)
	w.must(err)
	damaged := 0
	for _, a := range found {
		if a.State != builds.Damaged {
			continue
		}
		damaged++
		if has, err := w.blobs.Has(t.Context(), builds.Folder(w.id)+"/"+string(rune('0'+a.ID))); err != nil || has || a.Path != "" {
			t.Errorf("artifact %d has a blob: %v, %v", a.ID, has, err)
		}
	}
	events, err := w.Events(t.Context(), w.id, 0, 0)
	w.must(err)
	for _, e := range events {
		if e.Source == builds.Aggregator && e.Reason == "ArtifactDamaged" && e.Applied {
			damaged += 10
		}
	}
	if damaged != 22 {
		t.Errorf("of the artifacts %d are damaged, %+v", damaged, found)
	}
}

// TestLogsThatContradictAreLeftWithTheWorker: the stored log is another build's. Nothing is overwritten, and the
// worker is not acknowledged.
func TestLogsThatContradictAreLeftWithTheWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t, filepath.Join(t.TempDir(), "waybill.db"))
	foreign := []byte("2026-03-01T08:00:00.000000000Z other\n")
	if _, err := w.Ingest(t.Context(), w.id, builds.Batch{Logs: []*builds.LogBatch{{Step: 1, Entries: 1, Data: foreign}}}); err != nil {
		t.Fatal(err)
	}
	w.build(10)
	workers := &list{workers: []aggregator.Worker{w.worker()}, asked: make(chan struct{}, 1)}
	w.aggregate(func(c *aggregator.Config) { c.Workers = workers })
	for w.proxy.Connections() < 4 {
		<-workers.asked
		if p, err := w.Progress(t.Context(), w.id); err != nil || p.Whole {
			t.Fatalf("the progress is %+v, %v", p, err)
		}
	}
	select {
	case <-w.server.Acknowledged():
		t.Error("the worker was acknowledged")
	default:
	}
}

// TestAWorkerIsAcknowledgedAgainAfterTheAnswerWasLost: another aggregator finds everything stored, and only acknowledges it.
func TestAWorkerIsAcknowledgedAgainAfterTheAnswerWasLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, filepath.Join(t.TempDir(), "waybill.db"))
	w.build(100)
	lost := &unheard{Store: w.Builds, heard: make(chan struct{})}
	stop := w.aggregate(func(c *aggregator.Config) { c.Store = lost })
	<-lost.heard
	stop()
	<-w.server.Acknowledged()
	if p, err := w.Progress(t.Context(), w.id); err != nil || p.Known || !p.Whole {
		t.Errorf("the progress is %+v, %v", p, err)
	}
	w.aggregate()
	w.taken()
	w.check()
}

// unheard is a store that is cut off before it hears of the acknowledgement.
type unheard struct {
	aggregator.Store
	heard chan struct{}
	once  atomic.Bool
}

func (u *unheard) Acknowledged(context.Context, builds.ID) error {
	if !u.once.Swap(true) {
		close(u.heard)
	}
	return errors.New("cut off")
}

// counting is a store that reports its failures.
type counting struct {
	aggregator.Store
	failed chan struct{}
}

func (c *counting) Progress(ctx context.Context, id builds.ID) (builds.Progress, error) {
	p, err := c.Store.Progress(ctx, id)
	c.count(err)
	return p, err
}

func (c *counting) Ingest(ctx context.Context, id builds.ID, b builds.Batch) (builds.Ingested, error) {
	done, err := c.Store.Ingest(ctx, id, b)
	c.count(err)
	return done, err
}

func (c *counting) count(err error) {
	if err == nil {
		return
	}
	select {
	case c.failed <- struct{}{}:
	default:
	}
}

// TestTheBlobStoreIsAwayForAWhile: an artifact that cannot be stored is fetched again, and the build does not end before.
func TestTheBlobStoreIsAwayForAWhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, filepath.Join(t.TempDir(), "waybill.db"))
	w.build(100)
	full := &full{Store: w.blobs, left: 5}
	w.aggregate(func(c *aggregator.Config) { c.Blobs = full })
	w.taken()
	w.check()
	if full.left >= 0 {
		t.Error("the blob store was never away")
	}
}

// full is a blob store that takes nothing for some tries.
type full struct {
	blob.Store
	left int
}

func (f *full) Put(ctx context.Context, key string, r io.Reader) (string, string, int64, error) {
	if f.left--; f.left >= 0 {
		_, _ = io.CopyN(io.Discard, r, 1000)
		return "", "", 0, fault.New(fault.Unavailable, "the disk is full")
	}
	return f.Store.Put(ctx, key, r)
}

// TestAnArtifactOfADeletedBuildIsNotLeft: the build is deleted, and its blobs are cleared, just before the artifact is in the blob store.
func TestAnArtifactOfADeletedBuildIsNotLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t, filepath.Join(t.TempDir(), "waybill.db"))
	if _, err := w.Record(t.Context(), w.id, builds.Event{Source: builds.Watchdog, EventID: "lost", Status: build.Lost}); err != nil {
		t.Fatal(err)
	}
	w.build(10)
	late := &late{Store: w.blobs, cleared: make(chan error, 1), deletion: func() error {
		return errors.Join(w.Delete(t.Context(), w.id), w.blobs.Clear(t.Context(), builds.Folder(w.id)))
	}}
	w.aggregate(func(c *aggregator.Config) { c.Blobs = late })
	select {
	case err := <-late.cleared:
		w.must(err)
	case <-time.After(2 * time.Minute):
		t.Fatal("the blob was left")
	}
	for id := range 5 {
		if has, err := w.blobs.Has(t.Context(), fmt.Sprintf("%s/%d", builds.Folder(w.id), id)); has || err != nil {
			t.Errorf("artifact %d: %t, %v", id, has, err)
		}
	}
}

// late is a blob store during whose first Put something is deleted.
type late struct {
	blob.Store
	deletion func() error
	cleared  chan error // gets the result of Clear
}

func (l *late) Put(ctx context.Context, key string, r io.Reader) (string, string, int64, error) {
	if deletion := l.deletion; deletion != nil {
		if l.deletion = nil; deletion() != nil {
			return "", "", 0, fault.New(fault.Internal, "the build cannot be deleted")
		}
	}
	return l.Store.Put(ctx, key, r)
}

func (l *late) Clear(ctx context.Context, folder string) error {
	err := l.Store.Clear(ctx, folder)
	select {
	case l.cleared <- err:
	default:
	}
	return err
}
