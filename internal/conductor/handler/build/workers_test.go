package build_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/action"
	domain "github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/sqlite"
	"github.com/waybill-dev/waybill/internal/store"
)

// yard is a provisioner whose workers do nothing.
type yard struct {
	asked   []provisionerv1.CreateWorker
	deleted []string
	away    error
	waiting *provisionerv1.Waiting

	hastened []string // each time, with the pause
}

func (y *yard) Create(_ context.Context, request provisionerv1.CreateWorker) (provisionerv1.Created, error) {
	y.asked = append(y.asked, request)
	return provisionerv1.Created{Worker: provisionerv1.Worker{WorkerID: "w"}, Waiting: y.waiting, Retry: time.Minute}, y.away
}

func (y *yard) List(context.Context, provisionerv1.Filter) (provisionerv1.WorkerList, error) {
	return provisionerv1.WorkerList{}, nil
}

func (y *yard) Delete(_ context.Context, workerID string, _ bool) error {
	y.deleted = append(y.deleted, workerID)
	return nil
}

// inWorkers gives a handler workers whose builds are in a database of their own. wait is called while an attempt
// waits.
func inWorkers(t *testing.T, wait func(ctx context.Context, stored *builds.Builds) error) (*setup, *builds.Builds, *yard) {
	t.Helper()
	database := filepath.Join(t.TempDir(), "waybill.db")
	driver, err := sqlite.Open(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	db := store.New(driver)
	t.Cleanup(func() { _ = db.Close() })
	stored, y := builds.New(db, driver, builds.Options{}), &yard{}
	s := fresh(t, shop, pipeline.Artifact{Label: "about", Path: "dist/about"})
	s.database = database
	s.handler.Workers = &build.Workers{Builds: stored, Provisioner: y, Instance: "shop",
		Now:    func(ctx context.Context) (time.Time, error) { return store.Now(ctx, db) },
		Inputs: func(context.Context, string, string, string) ([]domain.Input, error) { return nil, nil },
		Hasten: func(_ context.Context, wait time.Duration, ids ...action.ID) error {
			y.hastened = append(y.hastened, fmt.Sprint(wait, ids))
			return nil
		},
		Waiter: func() func(context.Context, time.Time) error {
			return func(ctx context.Context, _ time.Time) error { return wait(ctx, stored) }
		}}
	return s, stored, y
}

// fails ends the newest build as one that failed.
func fails(ctx context.Context, stored *builds.Builds) error {
	all, err := stored.List(ctx, builds.Query{Limit: 1})
	if err != nil {
		return err
	}
	_, err = stored.Record(ctx, all[0].ID, builds.Event{Source: builds.API, EventID: "end", Status: domain.Failed,
		Reason: "broken", Message: "beyond repair"})
	return err
}

func TestABuildWaitsForItsWorkerAndSpendsNothing(t *testing.T) {
	t.Parallel()
	s, stored, y := inWorkers(t, fails)
	y.away = fault.New(fault.Unavailable, "the provisioner is away")
	if o := s.do(t.Context(), 1); o.Kind != action.Throttle || o.At.IsZero() || !strings.Contains(o.Error, "is away") {
		t.Errorf("%+v", o)
	}
	y.away, y.waiting = nil, &provisionerv1.Waiting{Running: 4, Limit: 4, Project: "shop"}
	if o := s.do(t.Context(), 2); o.Kind != action.RetryAfter || o.At.IsZero() ||
		o.Error != "queued: 4 workers of project shop run, and 4 may at a time" {
		t.Errorf("%+v", o)
	}
	y.waiting = nil
	o := s.do(t.Context(), 3)
	if o.Kind != action.Retry || o.Code != "build_failed" || o.Error != "the build ended Failed: broken: beyond repair" || o.Ref != "build/1" {
		t.Errorf("%+v", o)
	}
	for _, again := range y.asked { // as the first time, or the provisioner would refuse it
		if diff := cmp.Diff(y.asked[0], again); diff != "" {
			t.Error(diff)
		}
	}
	first := y.asked[0]
	if err := first.Check(); err != nil || len(y.asked) != 3 || first.Variables["GIT_COMMIT_SHORT"] != "3f9c2ab" ||
		first.Variables["GIT_BRANCH"] != "topic/a" || first.Variables["GIT_SAFEBRANCH"] != "topic-a" ||
		first.Snapshot != s.log.revision.Snapshot {
		t.Errorf("%d requests: %+v, %v", len(y.asked), first, err)
	}
	if o := s.do(t.Context(), 4); o.Ref != "build/2" {
		t.Errorf("the failure was reported; want a new build: %+v", o)
	}
	all, err := stored.List(t.Context(), builds.Query{})
	if err != nil || len(all) != 2 || all[1].WorkerID != "w" || all[1].Branch != "topic/a" ||
		all[1].ActionID != s.action.ID || all[0].Nonce == all[1].Nonce {
		t.Errorf("%+v, %v", all, err)
	}
	if diff := cmp.Diff([]string{"w", "w"}, y.deleted); diff != "" {
		t.Error(diff)
	}
}

// TestBuildsThatWaitAreAttemptedOnceThereMayBeRoom: the oldest of each project and of each pipeline, when a build has
// got its worker and when it has ended.
func TestBuildsThatWaitAreAttemptedOnceThereMayBeRoom(t *testing.T) {
	t.Parallel()
	s, stored, y := inWorkers(t, func(ctx context.Context, stored *builds.Builds) error { return ends(ctx, stored, domain.Completed) })
	dir, commit := repository(t)
	of := func(n int64) action.ID { return action.DerivedID(time.Unix(n, 0), "waits") }
	alone(t, s, stored, dir, builds.Build{Commit: commit})
	for i, b := range []builds.Build{{Project: "shop"}, {Project: "shop"}, {Project: "shop", Revision: "3f9c2ab"},
		{Project: "other"}, {Project: "other", WorkerID: "busy"}} {
		b.ActionID, b.Nonce = of(int64(i)), strings.Repeat("n", 20)
		created, err := stored.Create(t.Context(), b)
		if err == nil && b.WorkerID != "" {
			err = stored.Assign(t.Context(), created.ID, b.WorkerID, b.Nonce)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	y.waiting = &provisionerv1.Waiting{Running: 4, Limit: 4}
	if o := s.do(t.Context(), 1); o.Kind != action.RetryAfter || o.Code != build.CodeWaiting || y.hastened != nil {
		t.Errorf("%+v, %v", o, y.hastened)
	}
	y.waiting = nil
	if o := s.do(t.Context(), 2); o.Kind != action.Done {
		t.Errorf("%+v", o)
	}
	waits := []action.ID{of(0), of(2), of(3)}
	if diff := cmp.Diff([]string{fmt.Sprint(0*time.Second, waits), fmt.Sprint(time.Second, waits)}, y.hastened); diff != "" {
		t.Error(diff)
	}
}

// TestAPipelineCannotHaveTheNumberOfAProject that is called something else: the name of a pipeline is free.
func TestAPipelineCannotHaveTheNumberOfAProject(t *testing.T) {
	t.Parallel()
	for owner, want := range map[string]action.OutcomeKind{"tools": action.Fatal, "shop": action.Retry, "": action.Retry} {
		s, _, y := inWorkers(t, fails)
		s.handler.Workers.ProjectOf = func(id string) string {
			if id != "shop" {
				t.Errorf("asked for %s", id)
			}
			return owner
		}
		if o := s.do(t.Context(), 1); o.Kind != want || (len(y.asked) == 0) != (want == action.Fatal) {
			t.Errorf("%s: %+v, %d workers", owner, o, len(y.asked))
		}
	}
}

func TestARefusedWorkerIsFatal(t *testing.T) {
	t.Parallel()
	s, _, y := inWorkers(t, fails)
	y.away = fault.New(fault.Conflict, "the build has another worker")
	if o := s.do(t.Context(), 1); o.Kind != action.Fatal {
		t.Errorf("%+v", o)
	}
}

func TestTheEndOfAnAttemptEndsItsWorker(t *testing.T) {
	t.Parallel()
	for cause, want := range map[error]struct {
		kind    action.OutcomeKind
		deleted bool
		next    string // build of the next attempt
	}{
		conductor.ErrCanceled:       {action.Stopped, true, "build/2"},
		conductor.ErrAttemptTimeout: {action.Retry, true, "build/2"},
		conductor.ErrShutdown:       {action.GivenBack, false, "build/1"},
		conductor.ErrLeaseLost:      {action.GivenBack, false, "build/1"},
	} {
		t.Run(cause.Error(), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			s, stored, y := inWorkers(t, func(waiting context.Context, stored *builds.Builds) error {
				if waiting != ctx && context.Cause(ctx) != nil { // the next attempt
					return fails(waiting, stored)
				}
				cancel(cause)
				return context.Cause(waiting)
			})
			if o := s.do(ctx, 1); o.Kind != want.kind {
				t.Errorf("%+v, want %s", o, want.kind)
			}
			b, err := stored.Build(t.Context(), 1)
			if err != nil || b.CancelRequestedAt.IsZero() == want.deleted || (len(y.deleted) > 0) != want.deleted {
				t.Errorf("%+v, deleted %v, %v", b, y.deleted, err)
			}
			if o := s.do(t.Context(), 2); o.Ref != want.next {
				t.Errorf("the next attempt: %+v", o)
			}
		})
	}
}

// whole returns all that the worker of a build of one step sends.
func whole(t *testing.T, s *setup) builds.Batch {
	t.Helper()
	key, digest, size, err := s.blobs.Put(t.Context(), "build/1/1", strings.NewReader("3f9c2ab shop\n"))
	if err != nil {
		t.Fatal(err)
	}
	return builds.Batch{Steps: []builds.Step{{ID: 1, Stage: "build", Name: "app"}},
		Artifacts: []builds.Artifact{{Artifact: domain.Artifact{ID: 1, Step: 1, Name: "dist/about", Size: size,
			SHA256: digest, Kind: "file", Path: key}, State: builds.Stored}},
		Events: []builds.Event{
			{Source: builds.Worker, EventID: "1", Status: domain.Running},
			{Source: builds.Worker, EventID: "2", Step: 1, Status: domain.Scheduling},
			{Source: builds.Worker, EventID: "3", Step: 1, Status: domain.Initializing},
			{Source: builds.Worker, EventID: "4", Step: 1, Status: domain.Running},
			{Source: builds.Worker, EventID: "5", Step: 1, Status: domain.Completed, Trailer: &domain.Trailer{SHA256: nothing()}},
			{Source: builds.Worker, EventID: "6", Status: domain.Completed, Trailer: &domain.Trailer{SHA256: nothing()},
				Final: &domain.Final{Steps: 1, Events: 6, Artifacts: 1}},
		}}
}

func TestAWorkersArtifactsAreRegistered(t *testing.T) {
	t.Parallel()
	var s *setup
	s, _, _ = inWorkers(t, func(ctx context.Context, stored *builds.Builds) error {
		_, err := stored.Ingest(ctx, 1, whole(t, s))
		return err
	})
	o := s.do(t.Context(), 1)
	var got struct{ Artifacts []pipeline.RevisionArtifact }
	if err := json.Unmarshal(o.Output, &got); o.Kind != action.Done || err != nil {
		t.Fatalf("%+v, %v", o, err)
	}
	if diff := cmp.Diff(got.Artifacts, s.log.registered); diff != "" || len(got.Artifacts) != 1 ||
		got.Artifacts[0].Build != "1" || !strings.HasPrefix(got.Artifacts[0].Blob, "upload/") {
		t.Errorf("%+v: %s", got, diff)
	}
}

// TestADamagedArtifactIsBuiltAgain: the bytes are nowhere, however often the same build is read.
func TestADamagedArtifactIsBuiltAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		damage func(a *builds.Artifact)
		want   string
	}{
		"never whole": {func(a *builds.Artifact) { a.State, a.Path = builds.Damaged, "" }, "were never those"},
		"removed":     {func(a *builds.Artifact) { a.Path = "build/1/removed" }, "build/1/removed"},
		"changed":     {func(a *builds.Artifact) { a.SHA256 = nothing() }, "has changed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s *setup
			s, _, y := inWorkers(t, func(ctx context.Context, stored *builds.Builds) error {
				all, err := stored.List(ctx, builds.Query{Limit: 1})
				if err != nil {
					return err
				}
				batch := whole(t, s)
				if all[0].ID == 1 {
					c.damage(&batch.Artifacts[0])
				}
				_, err = stored.Ingest(ctx, all[0].ID, batch)
				return err
			})
			o := s.do(t.Context(), 1)
			if o.Kind != action.Retry || o.Code != "artifact_damaged" || o.Ref != "build/1" || !strings.Contains(o.Error, c.want) {
				t.Errorf("%+v, want a retry: %q", o, c.want)
			}
			if o := s.do(t.Context(), 2); o.Kind != action.Done || o.Ref != "build/2" || len(y.deleted) != 2 {
				t.Errorf("%+v, want another build; deleted %v", o, y.deleted)
			}
		})
	}
}

func TestABuildThatNeverHadStepsIsToldByItsOwnLog(t *testing.T) {
	t.Parallel()
	const log = "2026-11-26T05:00:01.000000000Z cannot clone\n"
	sum := sha256.Sum256([]byte(log))
	s, _, _ := inWorkers(t, func(ctx context.Context, stored *builds.Builds) error {
		_, err := stored.Ingest(ctx, 1, builds.Batch{Logs: []*builds.LogBatch{{Entries: 1, Data: []byte(log)}},
			Events: []builds.Event{{Source: builds.Worker, EventID: "1", Status: domain.Failed, Reason: "no files",
				Trailer: &domain.Trailer{Entries: 1, Bytes: int64(len(log)), SHA256: hex.EncodeToString(sum[:])}, Final: &domain.Final{Events: 1}}}})
		return err
	})
	want := "the build ended Failed: no files\nits last lines:\n  cannot clone"
	if o := s.do(t.Context(), 1); o.Kind != action.Retry || o.Error != want {
		t.Errorf("%+v, want %q", o, want)
	}
}

// nothing returns the digest of an empty log.
func nothing() string {
	sum := sha256.Sum256(nil)
	return hex.EncodeToString(sum[:])
}
