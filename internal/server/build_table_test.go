package server_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/results"
	"github.com/waybill-dev/waybill/internal/service/buildview"
	"github.com/waybill-dev/waybill/internal/sqlite/sqlitetest"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/testresult"
)

// workerLog is the log of the failed step of fromWorkers, as in the worker's file.
const workerLog = "2026-11-26T05:00:01.000000000Z o one\n2026-11-26T05:00:03.000000000Z o two\n"

// fromWorkers returns builds in a database: 1, which failed in step 1 of 1, and 2, which waits. A folder has build OLD.
func fromWorkers(t *testing.T) *buildview.Tables {
	t.Helper()
	driver := sqlitetest.Open(t, filepath.Join(t.TempDir(), "waybill.db"))
	db := store.New(driver)
	t.Cleanup(func() { _ = db.Close() })
	dir := t.TempDir()
	failed(t, dir, "OLD")
	blobs, err := blob.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	originOf := func(context.Context, action.ID) (*buildview.Origin, error) {
		return &buildview.Origin{Pipeline: "shop", Deployment: 7, Target: "shop/build", Commit: "3f9c2ab", Subject: "Sell more"}, nil
	}
	tables := &buildview.Tables{Rows: builds.New(db, driver, builds.Options{}), Folders: buildview.NewFolders(dir, originOf), Blobs: blobs,
		Waiter: func() func(context.Context, time.Time) error {
			waiter := db.Signals().Waiter()
			return func(ctx context.Context, until time.Time) error { return waiter.Wait(ctx, store.TopicBuild, until) }
		}}
	for range 2 {
		if _, err := tables.Rows.Create(t.Context(), builds.Build{Project: "shop", Commit: "3f9c2ab", Deployment: 7,
			Target: "shop/build", ActionID: action.DerivedID(time.Unix(1, 0), "a")}); err != nil {
			t.Fatal(err)
		}
	}
	ingestFailure(t, tables)
	return tables
}

// ingestFailure stores all that the worker of build 1 sends.
func ingestFailure(t *testing.T, tables *buildview.Tables) {
	t.Helper()
	key, _, size, err := tables.Blobs.Put(t.Context(), "build/1/1", strings.NewReader("<testsuite/>"))
	if err != nil {
		t.Fatal(err)
	}
	sum, logSum, none := sha256.Sum256([]byte("<testsuite/>")), sha256.Sum256([]byte(workerLog)), sha256.Sum256(nil)
	three := 3
	of := func(id string, step int, s build.Status) builds.Event {
		return builds.Event{Source: builds.Worker, EventID: id, Step: step, Status: s, At: time.Unix(1000, 0)}
	}
	batch := builds.Batch{Steps: []builds.Step{{ID: 1, Stage: "test", Name: "unit"}},
		Logs: []*builds.LogBatch{{Step: 1, Entries: 2, Data: []byte(workerLog)}},
		Artifacts: []builds.Artifact{{Artifact: build.Artifact{ID: 1, Step: 1, Name: "a.xml", Size: size,
			SHA256: hex.EncodeToString(sum[:]), Kind: "junit", Path: key}, State: builds.Stored}},
		Tests: []build.TestFile{{Artifact: 1, Step: 1, Name: "a.xml", Format: testresult.JUnit, Report: testresult.Report{
			Counts:  testresult.Counts{Tests: 2, Failed: 1},
			Results: []testresult.Result{{Name: "Sum", Outcome: testresult.Failed}, {Name: "Add", Outcome: testresult.Passed}}}}},
		Events: []builds.Event{of("1", 0, build.Running), of("2", 1, build.Scheduling), of("3", 1, build.Initializing), of("4", 1, build.Running),
			of("5", 1, build.Failed), of("6", 0, build.Failed)}}
	batch.Events[4].Trailer, batch.Events[4].Reason, batch.Events[4].ExitCode = &build.Trailer{Entries: 2,
		Bytes: int64(len(workerLog)), SHA256: hex.EncodeToString(logSum[:])}, "exit status 3", &three
	batch.Events[5].Trailer, batch.Events[5].Final = &build.Trailer{SHA256: hex.EncodeToString(none[:])}, &build.Final{
		Steps: 1, Events: 6, Artifacts: 1}
	if _, err := tables.Rows.Ingest(t.Context(), 1, batch); err != nil {
		t.Fatal(err)
	}
}

func TestBuildsOfWorkersAreListedBeforeThoseOfFolders(t *testing.T) {
	t.Parallel()
	tables := fromWorkers(t)
	for limit, pages := range map[int][]string{1: {"2", "1", "OLD"}, 2: {"2 1", "OLD"}, 0: {"2 1 OLD"}} {
		var got []string
		for q := (buildview.Query{Limit: limit}); ; {
			list, err := tables.Builds(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			page := ""
			for _, b := range list.Builds {
				page += " " + b.ID
			}
			if page != "" {
				got = append(got, page[1:])
			}
			if q.After = list.Next; q.After == "" {
				break
			}
		}
		if diff := cmp.Diff(pages, got); diff != "" {
			t.Errorf("limit %d: %s", limit, diff)
		}
	}
	list, err := tables.Builds(t.Context(), buildview.Query{Deployment: 7, Status: build.Failed})
	if err != nil || len(list.Builds) != 1 || list.Builds[0].ID != "1" || list.Builds[0].Steps != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := tables.Builds(t.Context(), buildview.Query{After: "worker:x"}); !fault.Is(err, fault.Invalid) {
		t.Error(err)
	}
}

func TestABuildOfAWorkerIsReadFromTheDatabase(t *testing.T) {
	t.Parallel()
	tables := fromWorkers(t)
	b, err := tables.OpenBuild(t.Context(), "1")
	if err != nil {
		t.Fatal(err)
	}
	state, err := b.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	steps := state.StepViews()
	if len(steps) != 1 || steps[0].Path() != "test/unit" || steps[0].Status != build.Failed ||
		steps[0].Reason != "exit status 3" || *steps[0].ExitCode != 3 ||
		steps[0].LogEntries != 2 || steps[0].Tests.Failed != 1 || state.Status != build.Failed || state.Deployment != 7 ||
		len(state.Stages) != 1 ||
		state.Commit != "3f9c2ab" || state.Subject != "Sell more" {
		t.Errorf("%+v\n%+v", steps, state)
	}
	if len(state.Notable) != 1 || len(state.Notable[0].Results) != 1 || state.Notable[0].Results[0].Name != "Sum" {
		t.Errorf("%+v", state.Notable)
	}
	if files, err := b.Tests(t.Context()); err != nil || len(files) != 1 || len(files[0].Results) != 2 {
		t.Errorf("%+v, %v", files, err)
	}
	content, err := b.OpenArtifact(t.Context(), state.Artifacts[0])
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(content)
	if err := errors.Join(err, content.Close()); err != nil || string(text) != "<testsuite/>" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := b.OpenArtifact(t.Context(), build.Artifact{ID: 2}); !fault.Is(err, fault.NotFound) {
		t.Errorf("a damaged one: %v", err)
	}
	old, err := tables.OpenBuild(t.Context(), "OLD")
	if err != nil {
		t.Fatal(err)
	}
	if state, err := old.State(t.Context()); err != nil || state.ID != "OLD" {
		t.Errorf("%+v, %v", state, err)
	}
	for _, id := range []string{"99", "-1", "0"} {
		if _, err := tables.OpenBuild(t.Context(), id); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: %v", id, err)
		}
	}
}

func TestPlacesInTheLogOfAWorkersBuild(t *testing.T) {
	t.Parallel()
	b, err := fromWorkers(t).OpenBuild(t.Context(), "1")
	if err != nil {
		t.Fatal(err)
	}
	half, whole := int64(len(workerLog)/2), int64(len(workerLog))
	at := time.Date(2026, 11, 26, 5, 0, 2, 0, time.UTC)
	for place, want := range map[buildview.LogPlace]build.Position{
		{}: {}, {After: 1}: {ID: 1, Offset: half}, {After: 9}: {ID: 2, Offset: whole}, {Since: at}: {ID: 1, Offset: half},
		{Since: at.Add(time.Hour)}: {ID: 2, Offset: whole},
	} {
		got, err := b.Locate(t.Context(), 1, place)
		if err != nil || got != want {
			t.Errorf("%+v: %+v, want %+v, %v", place, got, want, err)
		}
	}
	buffer := make([]byte, results.BatchSize)
	size, err := b.ReadLog(t.Context(), 1, half, buffer)
	if err != nil || string(buffer[:size]) != workerLog[half:] {
		t.Errorf("%q, %v", buffer[:size], err)
	}
	if size, err := b.ReadLog(t.Context(), 1, 0, buffer[:half+5]); err != nil || int64(size) != half {
		t.Errorf("a small buffer: %d bytes, %v", size, err)
	}
	if size, err := b.ReadLog(t.Context(), 1, whole, buffer); err != nil || size != 0 {
		t.Errorf("after the end: %d bytes, %v", size, err)
	}
}

// TestStatusesOfAWorkerComeInOrderAndAfterTheLog: they have numbers without a gap, though remarks come between, and the end of a step
// is not seen before all of its log.
func TestStatusesOfAWorkerComeInOrderAndAfterTheLog(t *testing.T) {
	t.Parallel()
	tables := fromWorkers(t)
	sum := sha256.Sum256([]byte(workerLog))
	of := func(id string, s build.Status) builds.Event {
		return builds.Event{Source: builds.Worker, EventID: id, Step: 1, Status: s, At: time.Unix(1000, 0)}
	}
	ingest := func(b builds.Batch) {
		t.Helper()
		if _, err := tables.Rows.Ingest(t.Context(), 2, b); err != nil {
			t.Fatal(err)
		}
	}
	want := func(statuses ...build.Status) {
		t.Helper()
		b, err := tables.OpenBuild(t.Context(), "2")
		if err != nil {
			t.Fatal(err)
		}
		state, err := b.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []build.Status
		for i, u := range state.Updates[1] {
			got = append(got, u.Status)
			if u.ID != int64(i+1) {
				t.Errorf("%s has the number %d", u.Status, u.ID)
			}
		}
		if diff := cmp.Diff(statuses, got); diff != "" {
			t.Error(diff)
		}
	}
	ingest(builds.Batch{Steps: []builds.Step{{ID: 1, Stage: "test", Name: "unit"}},
		Events: []builds.Event{of("1", build.Scheduling), of("2", build.Initializing)}})
	if _, err := tables.Rows.Record(t.Context(), 2,
		builds.Event{Source: builds.Watchdog, EventID: "unreachable", Message: "not heard from"}); err != nil {
		t.Fatal(err)
	}
	end := of("4", build.Completed)
	end.Trailer = &build.Trailer{Entries: 2, Bytes: int64(len(workerLog)), SHA256: hex.EncodeToString(sum[:])}
	ingest(builds.Batch{Events: []builds.Event{of("3", build.Running), end}})
	want(build.Scheduling, build.Initializing, build.Running)
	ingest(builds.Batch{Logs: []*builds.LogBatch{{Step: 1, Entries: 2, Data: []byte(workerLog)}}})
	want(build.Scheduling, build.Initializing, build.Running, build.Completed)
}

// TestAFollowerReadsOnlyWhatIsNew: it waits to be woken, and a look at a build that has not changed reads its row alone.
func TestAFollowerReadsOnlyWhatIsNew(t *testing.T) {
	t.Parallel()
	tables := fromWorkers(t)
	b, err := tables.OpenBuild(t.Context(), "1")
	if err != nil {
		t.Fatal(err)
	}
	first, err := b.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	follow := b.Follow()
	if err := follow(t.Context()); err != nil { // what has changed before
		t.Fatal(err)
	}
	if _, err := tables.Rows.Record(t.Context(), 1, builds.Event{Source: builds.API, EventID: "remark", Message: "looked at"}); err != nil {
		t.Fatal(err)
	}
	if err := follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	again, err := tables.OpenBuild(ended, "1")
	if err != nil {
		t.Fatal(err)
	}
	second, err := again.State(t.Context())
	if err != nil || again != b {
		t.Fatalf("another reader: %v", err)
	}
	if diff := cmp.Diff(first.StepViews(), second.StepViews()); diff != "" || &first.Notable[0] != &second.Notable[0] {
		t.Errorf("tests were read again, or %s", diff)
	}
	cancel()
	if err := b.Follow()(ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestTheBuildsOfAnActionAreFoundAmongMany: the page of a deployment requests them.
func TestTheBuildsOfAnActionAreFoundAmongMany(t *testing.T) {
	t.Parallel()
	tables := fromWorkers(t)
	for range 600 {
		if _, err := tables.Rows.Create(t.Context(), builds.Build{Project: "blog"}); err != nil {
			t.Fatal(err)
		}
	}
	for _, q := range []buildview.Query{{Action: action.DerivedID(time.Unix(1, 0), "a").String()}, {Pipeline: "shop", Deployment: 7}} {
		list, err := tables.Builds(t.Context(), q)
		if err != nil || len(list.Builds) != 2 || list.Builds[1].ID != "1" || list.Builds[1].Tests.Failed != 1 {
			t.Errorf("%+v: %+v, %v", q, list, err)
		}
	}
}

// TestBuildsAreSearched by all that a query can request, in the database and in folders.
func TestBuildsAreSearched(t *testing.T) {
	t.Parallel()
	tables := fromWorkers(t)
	if _, err := tables.Rows.Create(t.Context(),
		builds.Build{Project: "blog", Branch: "next", Commit: "abcd", Inputs: map[string]string{"level": "debug"}}); err != nil {
		t.Fatal(err)
	}
	soon := time.Now().Add(time.Hour)
	for want, queries := range map[string][]buildview.Query{
		"3":         {{Branch: "next"}, {Commit: "ab"}, {Text: "NEXT"}, {Input: "level=debug", Pipeline: "blog"}},
		"3 OLD":     {{Input: "level=debug"}, {Input: "ebu"}, {Text: "debug"}},
		"1":         {{Stage: "test", Artifact: "a.xml"}, {Test: "add", Pipeline: "shop"}, {Text: "a.xml"}},
		"1 OLD":     {{Test: "Add"}, {Stage: "test"}, {Text: "sum"}, {Status: build.Failed}},
		"OLD":       {{Artifact: "report"}},
		"3 2 1":     {{Since: time.Now().Add(-time.Hour), Until: soon}},
		"":          {{Since: soon}, {Input: "***"}, {Input: "level=deb"}, {Text: "***"}, {Test: "nothing"}, {Stage: "tes"}, {Branch: "nex"}},
		"3 2 1 OLD": {{}},
	} {
		for _, q := range queries {
			var got []string
			for {
				list, err := tables.Builds(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				for _, b := range list.Builds {
					got = append(got, b.ID)
				}
				if q.After = list.Next; q.After == "" {
					break
				}
			}
			if found := strings.Join(got, " "); found != want {
				t.Errorf("%+v: found %q, want %q", q, found, want)
			}
		}
	}
}

// noBlobs is a blob store in which nothing is left.
type noBlobs struct{}

func (noBlobs) Folders(context.Context, string) ([]string, error) { return nil, nil }

func (noBlobs) Clear(context.Context, string) error { return nil }

// TestABuildWithoutItsResultsIsStillShown with its steps and how they ended.
func TestABuildWithoutItsResultsIsStillShown(t *testing.T) {
	t.Parallel()
	tables := fromWorkers(t)
	b, err := tables.OpenBuild(t.Context(), "1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.State(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := tables.Rows.Retain(t.Context(), time.Nanosecond, noBlobs{}); err != nil {
		t.Fatal(err)
	}
	state, err := b.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	steps := state.StepViews()
	if state.ExpiredOn.IsZero() || state.Status != build.Failed || len(state.Artifacts)+len(state.Notable) > 0 || len(steps) != 1 ||
		steps[0].Status != build.Failed || steps[0].Reason != "exit status 3" || steps[0].LogEntries != 0 || steps[0].FinishedOn.IsZero() {
		t.Errorf("%+v\n%+v", state, steps)
	}
	if at, err := b.Locate(t.Context(), 1, buildview.LogPlace{After: 9}); err != nil || at != (build.Position{}) {
		t.Errorf("%+v, %v", at, err)
	}
}
