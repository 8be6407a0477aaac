package aggregator

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/fault"
)

// ends is a store with one build.
type ends struct {
	build  builds.Build
	now    time.Time
	events []builds.Event
	err    error
}

func (e *ends) Build(_ context.Context, id builds.ID) (builds.Build, error) {
	if id != e.build.ID {
		return builds.Build{}, fault.New(fault.NotFound, "build %d not found", id)
	}
	return e.build, e.err
}

func (e *ends) Record(_ context.Context, _ builds.ID, event builds.Event) (builds.Event, error) {
	e.events = append(e.events, event)
	return event, nil
}

func (e *ends) Now(context.Context) (time.Time, error) { return e.now, nil }

// TestWorkersThatServeNothingAreJudged has a row for each state of a build and its worker.
func TestWorkersThatServeNothingAreJudged(t *testing.T) {
	t.Parallel()
	created := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	pull := "ImagePull: x: not found"
	for name, c := range map[string]struct {
		status  build.Status
		after   time.Duration // since the build was created
		heard   time.Duration // the lease ends after that
		worker  Worker
		want    build.Status // "": nothing is recorded
		reason  string
		message string
	}{
		"waits": {build.Scheduling, time.Minute, 0, Worker{Status: build.WorkerPending, Age: time.Minute}, "", "", ""},
		"waits for a reason": {build.Scheduling, time.Second, 0, Worker{Status: build.WorkerPending, Reason: pull, Age: time.Second},
			build.Scheduling, pull, ""},
		"waits for too long": {build.Scheduling, 11 * time.Minute, 0, Worker{Status: build.WorkerPending, Reason: pull, Age: 11 * time.Minute},
			build.Failed, pull, "the worker has not started within 10m0s"},
		"waits for too long without a reason": {build.Scheduling, 11 * time.Minute, 0, Worker{Status: build.WorkerPending, Age: 11 * time.Minute},
			build.Failed, "WorkerNotStarted", "the worker has not started within 10m0s"},
		"the build was queued before": {build.Scheduling, time.Hour, 0, Worker{Status: build.WorkerPending, Age: 9 * time.Minute}, "", "", ""},
		"clones": {build.Scheduling, 30 * time.Minute, 0,
			Worker{Status: build.WorkerPending, Began: true, Age: 30 * time.Minute}, "", "", ""},
		"clones for too long": {build.Scheduling, time.Hour, 0, Worker{Status: build.WorkerPending, Began: true, Age: time.Hour},
			build.Failed, "WorkerNotStarted", "the worker has not started within 40m0s"},
		"ended": {build.Running, time.Hour, 59 * time.Minute,
			Worker{Status: build.WorkerEnded, Reason: "Evicted: low"}, build.Lost, "WorkerLost", "Evicted: low"},
		"ended, and was heard from": {build.Running, time.Hour, time.Hour + time.Second, Worker{Status: build.WorkerEnded}, "", "", ""},
		"ended at once":             {build.Scheduling, 29 * time.Second, 0, Worker{Status: build.WorkerEnded}, "", "", ""},
		"ended before":              {build.Completed, time.Hour, 0, Worker{Status: build.WorkerEnded}, "", "", ""},
		"unknown":                   {build.Running, time.Hour, 0, Worker{Status: build.WorkerUnknown, Reason: "NodeLost: gone"}, "", "", ""},
	} {
		store := &ends{build: builds.Build{ID: 1, Status: c.status, CreatedAt: created, LeaseUntil: created.Add(c.heard)},
			now: created.Add(c.after)}
		c.worker.Build = 1
		if err := New(Config{Ends: store}).judgeOne(t.Context(), c.worker); err != nil {
			t.Fatal(err)
		}
		switch {
		case c.want == "" && len(store.events) > 0:
			t.Errorf("%s: %+v", name, store.events)
		case c.want == "":
		case len(store.events) != 1 || store.events[0].Status != c.want || store.events[0].Reason != c.reason ||
			store.events[0].Message != c.message ||
			store.events[0].Source != builds.Aggregator || store.events[0].EventID == "":
			t.Errorf("%s: %+v", name, store.events)
		}
	}
}

// TestTheReasonOfAWorkerIsTheNewestOne also if it was the reason before, and is stored once for as long as it stays.
func TestTheReasonOfAWorkerIsTheNewestOne(t *testing.T) {
	t.Parallel()
	store := &ends{build: builds.Build{ID: 1, Status: build.Scheduling}, now: time.Now()}
	a, ids := New(Config{Ends: store}), map[string]bool{}
	full, pull := "Unschedulable: 0/3 nodes", "ImagePull: "+strings.Repeat("x", 1000)
	for i, reason := range []string{full, pull, full} {
		for range 2 {
			if err := a.judgeOne(t.Context(), Worker{Build: 1, Status: build.WorkerPending, Reason: reason}); err != nil {
				t.Fatal(err)
			}
			if n := len(store.events); n != i+1 {
				t.Fatalf("%d events after %.30q, want %d", n, reason, i+1)
			}
			last := store.events[i]
			ids[last.EventID] = true
			store.build.Reason, store.build.LastSeq = builds.StoredReason(last.Reason), int64(i+1)
		}
	}
	if len(ids) != 3 {
		t.Errorf("events with the same id: %v", ids)
	}
}

// TestALostBuildHasWhatItsWorkerPrinted even if that cannot be read.
func TestALostBuildHasWhatItsWorkerPrinted(t *testing.T) {
	t.Parallel()
	for want, read := range map[string]func(context.Context) (string, error){
		"Evicted: low\nits last lines:\npackage/a | made":    func(context.Context) (string, error) { return "package/a | made\n", nil },
		"Evicted: low\nit printed nothing":                   func(context.Context) (string, error) { return "\n", nil },
		"Evicted: low\nwhat it printed cannot be read: gone": func(context.Context) (string, error) { return "", errors.New("gone") },
	} {
		store := &ends{build: builds.Build{ID: 1, Status: build.Running}, now: time.Now()}
		err := New(Config{Ends: store}).judgeOne(t.Context(),
			Worker{Build: 1, Status: build.WorkerEnded, Reason: "Evicted: low", LastLines: read})
		if err != nil || len(store.events) != 1 || store.events[0].Message != want {
			t.Errorf("%+v, %v", store.events, err)
		}
	}
}

// unready lists one worker.
type unready struct{ worker Worker }

func (u unready) Workers(context.Context) ([]Worker, error) { return []Worker{u.worker}, nil }

// TestListedWorkersAreJudged beside those that are followed.
func TestListedWorkersAreJudged(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		store := &ends{build: builds.Build{ID: 1, Status: build.Scheduling, CreatedAt: time.Now()}, now: time.Now()}
		ctx, cancel := context.WithCancel(t.Context())
		a := New(Config{Ends: store, Log: slog.New(slog.DiscardHandler),
			Workers: unready{Worker{Build: 1, Status: build.WorkerPending, Reason: "Unschedulable: 0/3 nodes", Address: "http://never"}}})
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil || len(store.events) != 1 || !strings.HasPrefix(store.events[0].Reason, "Unschedulable: ") {
			t.Errorf("%+v, %v", store.events, err)
		}
	})
}
