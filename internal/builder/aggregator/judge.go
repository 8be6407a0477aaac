package aggregator

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/obs"
)

// Ends is the builds whose workers serve nothing, and how they end.
type Ends interface {
	Build(ctx context.Context, id builds.ID) (builds.Build, error)
	Record(ctx context.Context, id builds.ID, e builds.Event) (builds.Event, error)
	// Now returns the database's time.
	Now(ctx context.Context) (time.Time, error)
}

// Times of judging.
const (
	judgeLimit = 30 * time.Second // bounds the judgement of one worker
	// cloneLimit is the time for a worker to get its files beside the time to start.
	cloneLimit = 30 * time.Minute
)

// judge has each build show why its worker does not run, and ends the builds of workers that will not do so. It
// returns at once; the list of before is judged first.
func (a *Aggregator) judge(ctx context.Context, workers []Worker) {
	if a.Ends == nil || len(workers) == 0 {
		return
	}
	select {
	case a.judging <- struct{}{}:
	default:
		return // the next list shows the same
	}
	a.running.Go(func() {
		defer func() { <-a.judging }()
		for _, w := range workers {
			one, cancel := context.WithTimeoutCause(ctx, judgeLimit, fmt.Errorf("not judged within %s", judgeLimit))
			err := a.judgeOne(one, w)
			cancel()
			if err != nil && ctx.Err() == nil {
				a.Log.Warn("a worker cannot be judged", obs.KeyBuildID, int64(w.Build), obs.KeyWorkerID, w.ID, obs.Error(err))
			}
		}
	})
}

// judgeOne records the meaning of a worker's state for its build.
func (a *Aggregator) judgeOne(ctx context.Context, w Worker) error {
	b, err := a.Ends.Build(ctx, w.Build)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil || b.Status.Ended() {
		return err
	}
	now, err := a.Ends.Now(ctx)
	if err != nil {
		return err
	}
	event, found := a.verdict(b, w, now)
	if !found {
		return nil
	}
	if event.Status == build.Lost && w.LastLines != nil {
		event.Message += "\n" + lastLines(ctx, w)
	}
	event.Source, event.At = builds.Aggregator, now
	_, err = a.Ends.Record(ctx, w.Build, event)
	return err
}

// verdict returns the event that a worker's state makes of its build, if it makes one. Messages of an ended worker
// may still be on their way to the database until the build's lease has ended.
func (a *Aggregator) verdict(b builds.Build, w Worker, now time.Time) (e builds.Event, found bool) {
	limit := a.StartLimit
	if w.Began {
		limit += cloneLimit
	}
	heard := !now.After(b.LeaseUntil) || now.Sub(b.CreatedAt) < builds.LeaseTime
	switch {
	case w.Status == build.WorkerEnded && !heard:
		return builds.Event{EventID: "worker-ended", Status: build.Lost, Reason: "WorkerLost",
			Message: cmp.Or(w.Reason, "the worker ended before the build did")}, true
	case w.Status != build.WorkerPending || b.Status != build.Scheduling: // what has run has started
	case w.Age > limit && !heard:
		return builds.Event{EventID: "worker-not-started", Status: build.Failed, Reason: cmp.Or(w.Reason, "WorkerNotStarted"),
			Message: fmt.Sprintf("the worker has not started within %s", limit)}, true
	case w.Reason != "":
		return b.Waits(builds.Event{EventID: "worker-waits", Reason: w.Reason})
	}
	return builds.Event{}, false
}

// lastLines returns the last lines of a worker's output, for people.
func lastLines(ctx context.Context, w Worker) string {
	lines, err := w.LastLines(ctx)
	switch {
	case err != nil:
		return fmt.Sprintf("what it printed cannot be read: %v", err)
	case strings.TrimSpace(lines) == "":
		return "it printed nothing"
	}
	return "its last lines:\n" + strings.TrimRight(lines, "\n")
}
