package aggregator_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/aggregator"
	"github.com/waybill-dev/waybill/internal/builder/worker/api"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/networktest"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/postgres"
	"github.com/waybill-dev/waybill/internal/results"
	"github.com/waybill-dev/waybill/internal/sqlite"
	"github.com/waybill-dev/waybill/internal/sqlite/sqlitetest"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/testresult"
)

const token = "a-token-of-this-worker"

// forEach runs a test with each database: SQLite, and with the tag services PostgreSQL.
func forEach(t *testing.T, test func(t *testing.T, url string)) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) { test(t, filepath.Join(t.TempDir(), "waybill.db")) })
	for name, start := range servers {
		t.Run(name, func(t *testing.T) { test(t, start(t)) })
	}
}

// openBuilds opens the builds in a database: a file, or a URL of PostgreSQL.
func openBuilds(ctx context.Context, url string) (*builds.Builds, *store.DB, error) {
	type driver interface {
		store.Driver
		builds.Driver
	}
	var d driver
	var err error
	if strings.HasPrefix(url, "postgres://") {
		d, err = postgres.Open(ctx, url, postgres.Options{})
	} else {
		d, err = sqlite.Open(ctx, url)
	}
	if err != nil {
		return nil, nil, err
	}
	db := store.New(d)
	return builds.New(db, d, builds.Options{}), db, nil
}

// world is a real results folder that a real worker API serves, and a database.
type world struct {
	*builds.Builds
	t       *testing.T
	id      builds.ID
	url     string // address of the database
	db      *store.DB
	blobs   *blob.Dir
	folder  string // folder of the blobs
	results *results.Store
	reader  *results.Reader
	server  *api.Server
	proxy   *networktest.Cutter
	skew    time.Duration // deviation of the worker's clock
}

// newWorld begins a build of two steps.
func newWorld(t *testing.T, url string) *world {
	t.Helper()
	w := &world{t: t, url: url, folder: t.TempDir()}
	if !strings.HasPrefix(url, "postgres://") {
		sqlitetest.Create(t, url)
	}
	b, db, err := openBuilds(t.Context(), url)
	w.must(err)
	t.Cleanup(func() { _ = db.Close() })
	w.Builds, w.db = b, db
	w.blobs, err = blob.OpenDir(w.folder)
	w.must(err)
	made, err := b.Create(t.Context(), builds.Build{Project: "shop", CreatedBy: "ana"})
	w.must(err)
	w.id = made.ID
	w.results, err = results.Create(filepath.Join(t.TempDir(), "results"), 1<<30)
	w.must(err)
	plan := &build.Plan{Stages: []build.PlanStage{{Name: "test", Steps: []int{1}}, {Name: "pack", Steps: []int{2}}}, Steps: []build.PlanStep{
		{ID: 1, Stage: "test", Name: "unit"}, {ID: 2, Stage: "pack", Name: "zip", After: []int{1}}}}
	w.must(w.results.Describe(results.Build{ID: "1", Plan: plan}))
	w.server, err = api.New(api.Config{Plan: plan, Store: w.results, Token: token, Log: slog.New(slog.DiscardHandler),
		Metrics: obs.NewRegistry(), KeepAlive: time.Second})
	w.must(err)
	w.reader, err = results.Open(w.results.Dir())
	w.must(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	w.must(err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan error, 1)
	go func() { served <- w.server.Serve(ctx, listener) }()
	w.proxy = networktest.NewCutter(t, listener.Addr().String())
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Logf("serve: %v", err)
		}
		_ = w.results.Close()
	})
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// worker returns a provisioner's list.
func (w *world) worker() aggregator.Worker {
	return aggregator.Worker{Build: w.id, ID: "worker-1", Address: "http://" + w.proxy.Address(), Token: token}
}

// list is a list of workers that a test changes.
type list struct {
	mu      sync.Mutex
	workers []aggregator.Worker
	asked   chan struct{} // receives a value for every request, if it has room
}

func (l *list) Workers(context.Context) ([]aggregator.Worker, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.asked <- struct{}{}:
	default:
	}
	return l.workers, nil
}

func (l *list) set(workers ...aggregator.Worker) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.workers = workers
}

// aggregate runs an aggregator until stop is called or the test ends.
func (w *world) aggregate(change ...func(*aggregator.Config)) (stop func()) {
	c := aggregator.Config{Workers: &list{workers: []aggregator.Worker{w.worker()}}, Store: w.Builds, Blobs: w.blobs,
		Every: 50 * time.Millisecond,
		Log:   slog.New(slog.NewTextHandler(w.t.Output(), nil))}
	for _, f := range change {
		f(&c)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- aggregator.New(c).Hurry().Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("run: %v", err)
		}
	})
	w.t.Cleanup(stop)
	return stop
}

// taken waits until everything is stored and the worker knows it.
func (w *world) taken() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer cancel()
	for waiter := w.db.Signals().Waiter(); ; {
		p, err := w.Progress(ctx, w.id)
		w.must(err)
		if p.Known {
			break
		}
		if err := waiter.Wait(ctx, store.TopicBuild, time.Time{}); err != nil {
			w.t.Fatalf("not everything was stored: %+v, %v", p, err)
		}
	}
	select {
	case <-w.server.Acknowledged():
	default:
		w.t.Error("the worker was never acknowledged")
	}
}

func (w *world) update(step int, status build.Status) {
	w.t.Helper()
	_, err := w.results.Update(step, build.Update{Status: status, Timestamp: time.Now().Add(w.skew), Attempt: min(step, 1)})
	w.must(err)
}

// print writes lines of many lengths into a step's log, some of which are not text.
func (w *world) print(step, lines int) {
	w.t.Helper()
	log, err := w.results.Log(step)
	w.must(err)
	for i := range lines {
		w.must(log.Append(build.Entry{At: time.Now().Add(w.skew),
			Text: fmt.Appendf(nil, "line %d \x00\xff %s", i, strings.Repeat("x", i*7%400))}))
	}
}

// artifact adds a file of so many bytes.
func (w *world) artifact(step int, name string, size int) {
	w.t.Helper()
	_, err := w.results.AddArtifact(build.Artifact{Step: step, Name: name, Kind: build.KindFile},
		strings.NewReader(strings.Repeat("bytes of an artifact ", size/21+1)[:size]))
	w.must(err)
}

// tests adds a file of test results.
func (w *world) tests(step int) {
	w.t.Helper()
	a, err := w.results.AddArtifact(build.Artifact{Step: step, Name: "out/unit.xml", Kind: string(testresult.JUnit)},
		strings.NewReader("<testsuite/>"))
	w.must(err)
	w.must(w.results.SetTests(step, []build.TestFile{{Artifact: a.ID, Name: a.Name, Format: testresult.JUnit, Report: testresult.Report{
		Counts: testresult.Counts{Tests: 2, Failed: 1}, Results: []testresult.Result{{Suite: "cart", Name: "Total",
			Outcome: testresult.Failed, Line: 41}, {Name: "Empty", Outcome: testresult.Passed}}}}}))
}

// build runs a whole build, whose steps print so many lines each.
func (w *world) build(lines int) {
	w.t.Helper()
	w.update(0, build.Scheduling)
	w.print(0, 3)
	w.update(0, build.Running)
	var steps sync.WaitGroup
	for _, step := range []int{1, 2} {
		steps.Go(func() {
			w.update(step, build.Scheduling)
			w.update(step, build.Running)
			w.print(step, lines)
			w.artifact(step, fmt.Sprintf("out/%d.zip", step), 200_000)
			w.tests(step)
			w.update(step, build.Completed)
		})
	}
	steps.Wait()
	w.artifact(2, "empty", 0)
	w.update(0, build.Completed)
}

// check compares everything that is stored with the results folder.
func (w *world) check() {
	w.t.Helper()
	ctx := w.t.Context()
	b, err := w.Build(ctx, w.id)
	w.must(err)
	if b.Status != build.Completed || b.Final == nil || b.AcknowledgedAt.IsZero() || b.RefusedEvents != 0 {
		w.t.Errorf("the build is %+v", b)
	}
	steps, err := w.Steps(ctx, w.id)
	w.must(err)
	if len(steps) != 3 || steps[1].Name != "unit" || steps[2].Status != build.Completed {
		w.t.Errorf("the steps are %+v", steps)
	}
	for step := range 3 {
		w.checkLog(step)
	}
	w.checkEvents(b.LastSeq)
	w.checkArtifacts()
	results, err := w.TestResults(ctx, w.id, builds.TestResult{}, false, 100)
	w.must(err)
	reports, err := w.TestReports(ctx, w.id)
	w.must(err)
	if len(results) != 4 || len(reports) != 2 || reports[0].Failed != 1 || results[0].Name != "Total" {
		w.t.Errorf("the test results are %+v, of %+v", results, reports)
	}
}

// checkLog compares a log byte for byte, and its rows with its bytes.
func (w *world) checkLog(step int) {
	w.t.Helper()
	want, err := os.ReadFile(w.reader.LogPath(step))
	w.must(err)
	got, err := io.ReadAll(w.OpenLog(w.t.Context(), w.id, step, 0))
	w.must(err)
	if !bytes.Equal(got, want) {
		w.t.Errorf("step %d: %d bytes are stored, other than the %d of the file", step, len(got), len(want))
	}
	next := int64(0)
	w.must(w.Log(w.t.Context(), w.id, step, 0, func(e build.Line) error {
		if next++; e.ID != next {
			return fmt.Errorf("step %d: entry %d comes after entry %d", step, e.ID, next-1)
		}
		return nil
	}))
	if lines := int64(bytes.Count(want, []byte("\n"))); next != lines {
		w.t.Errorf("step %d: %d entries are stored, of %d", step, next, lines)
	}
}

// checkEvents compares the events of the worker: each once, in order, all applied.
func (w *world) checkEvents(last int64) {
	w.t.Helper()
	events, err := w.Events(w.t.Context(), w.id, 0, 0)
	w.must(err)
	final, err := w.reader.Final()
	w.must(err)
	next := 0
	for _, e := range events {
		if e.Source != builds.Worker {
			continue
		}
		if next++; e.EventID != fmt.Sprint(next) || !e.Applied {
			w.t.Errorf("event %d is %+v", next, e)
		}
	}
	if int64(next) != final.Final.Events || int64(len(events)) != last {
		w.t.Errorf("%d events are stored, of %d", next, final.Final.Events)
	}
}

// checkArtifacts compares the bytes of the artifacts.
func (w *world) checkArtifacts() {
	w.t.Helper()
	want, err := w.reader.Artifacts()
	w.must(err)
	got, err := w.Artifacts(w.t.Context(), w.id, 0)
	w.must(err)
	if len(got) != len(want) {
		w.t.Errorf("%d artifacts are stored, of %d", len(got), len(want))
	}
	sums := map[string]string{}
	for _, a := range got {
		blob, _, err := w.blobs.Get(w.t.Context(), a.Path)
		w.must(err)
		data, err := io.ReadAll(blob)
		w.must(err)
		w.must(blob.Close())
		sum := sha256.Sum256(data)
		sums[fmt.Sprint(a.ID, a.Step, a.Name)] = hex.EncodeToString(sum[:])
	}
	for _, a := range want {
		if got := sums[fmt.Sprint(a.ID, a.Step, a.Name)]; got != a.SHA256 {
			w.t.Errorf("artifact %d, %s, has the digest %s, want %s", a.ID, a.Name, got, a.SHA256)
		}
	}
}
