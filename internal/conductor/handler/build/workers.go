package build

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"time"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/obs"
)

// Provisioner starts and ends workers; provisionerv1.Client does.
type Provisioner interface {
	Create(ctx context.Context, request provisionerv1.CreateWorker) (provisionerv1.Created, error)
	List(ctx context.Context, filter provisionerv1.Filter) (provisionerv1.WorkerList, error)
	Delete(ctx context.Context, workerID string, force bool) error
}

// Workers has builds run in workers of a provisioner. Every field must be set.
type Workers struct {
	Builds      *builds.Builds
	Provisioner Provisioner
	Instance    string                                       // label of the workers
	Now         func(ctx context.Context) (time.Time, error) // the database's time
	// Waiter returns a function that returns when a build may have changed, and at a time in any case.
	Waiter func() func(ctx context.Context, until time.Time) error
}

// Times of an attempt in a worker.
const (
	fullPause = 15 * time.Second // until there may be room, unless the provisioner says otherwise
	awayPause = 10 * time.Second
	lookEvery = 5 * time.Second  // at the worker
	endLimit  = 30 * time.Second // of a question to the provisioner beside Create
)

// inWorker has a worker make the attempt, or continue an attempt that was not reported, and returns what it has left.
func (t *task) inWorker(ctx context.Context) (*table, error) {
	row, err := t.row(ctx)
	if err != nil {
		return nil, err
	}
	if !row.Status.Ended() {
		if row.WorkerID, err = t.start(ctx, row); err == nil {
			row, err = t.await(ctx, row)
		}
	}
	if err != nil {
		t.abandon(ctx, row)
		return nil, err
	}
	return &table{Build: row, from: t.Workers.Builds, blobs: t.Blobs}, nil
}

// row returns the row of the attempt: the action's last one, unless its outcome was reported.
func (t *task) row(ctx context.Context) (builds.Build, error) {
	id := t.attempt.Action.ID
	newest, err := t.Workers.Builds.List(ctx, builds.Query{ActionID: id, Limit: 1})
	if err != nil {
		return builds.Build{}, err
	}
	if len(newest) > 0 {
		reported, err := t.Workers.Builds.HasEvent(ctx, newest[0].ID, builds.Conductor, reportedEvent)
		if err != nil || !reported {
			return newest[0], err
		}
	}
	step := t.attempt.Action.Step
	return t.Workers.Builds.Create(ctx, builds.Build{Project: t.revision.Pipeline, Commit: t.revision.Commit, Revision: t.revision.Label,
		Deployment: step.Deployment, Target: step.Target, Stages: t.stages(), ActionID: id, Nonce: rand.Text(), CreatedBy: t.attempt.Action.CreatedBy})
}

// stages returns the stages of the build's file that are built; nil: all.
func (t *task) stages() []string {
	if t.stage.Build.Stage == "" {
		return nil
	}
	return []string{t.stage.Build.Stage}
}

// start has the provisioner start the worker of a row, unless it has, and returns the worker's id.
func (t *task) start(ctx context.Context, row builds.Build) (string, error) {
	if row.WorkerID != "" {
		return row.WorkerID, nil
	}
	created, err := t.Workers.Provisioner.Create(ctx, provisionerv1.CreateWorker{
		BuildID: int64(row.ID), Project: row.Project, Instance: t.Workers.Instance, Nonce: row.Nonce, Revision: t.revision.Label,
		Snapshot: t.revision.Snapshot, File: t.stage.Build.File, Stages: t.stages(), Variables: t.variables(),
	})
	switch fault.CodeOf(err) {
	case fault.Unavailable, fault.Unauthorized, fault.Forbidden: // a token can be put right while builds wait
		if ctx.Err() == nil {
			return "", end{action.Outcome{Kind: action.Throttle, Code: string(fault.CodeOf(err)), Error: err.Error(), At: time.Now().Add(awayPause)}}
		}
	}
	if err != nil {
		return "", err
	}
	if w := created.Waiting; w != nil {
		of := ""
		if w.Project != "" {
			of = " of project " + w.Project
		}
		return "", end{action.Outcome{Kind: action.RetryAfter, Code: "waiting", At: time.Now().Add(cmp.Or(created.Retry, fullPause)),
			Error: fmt.Sprintf("queued: %d workers%s run, and %d may at a time", w.Running, of, w.Limit)}}
	}
	return created.Worker.WorkerID, t.Workers.Builds.Assign(ctx, row.ID, created.Worker.WorkerID, row.Nonce)
}

// await returns the row of a build once it has ended.
func (t *task) await(ctx context.Context, row builds.Build) (builds.Build, error) {
	wait := t.Workers.Waiter()
	look := time.Now().Add(lookEvery)
	for {
		now, err := t.Workers.Builds.Build(ctx, row.ID)
		if err != nil {
			return row, err
		}
		if row = now; row.Status.Ended() {
			return row, nil
		}
		if err := wait(ctx, look); err != nil {
			return row, err
		}
		if time.Now().Before(look) {
			continue
		}
		if err := t.lookAt(ctx, row); err != nil {
			return row, err
		}
		look = time.Now().Add(lookEvery)
	}
}

// lookAt ends a build as Lost whose worker has gone and of which nothing more can come. A provisioner that does not answer says
// nothing about the worker.
func (t *task) lookAt(ctx context.Context, row builds.Build) error {
	asking, cancel := context.WithTimeout(ctx, endLimit)
	defer cancel()
	list, err := t.Workers.Provisioner.List(asking, provisionerv1.Filter{BuildID: int64(row.ID)})
	if err != nil || !list.Complete {
		t.Log.Warn("the worker of a build cannot be looked at", obs.KeyBuildID, int64(row.ID), obs.Error(err))
		return context.Cause(ctx)
	}
	reason, patience := "the worker is gone", time.Duration(0)
	for _, w := range list.Workers {
		if w.WorkerID != row.WorkerID {
			continue
		}
		if w.Status != string(build.WorkerEnded) {
			return nil
		}
		reason = cmp.Or(w.Reason, "the worker ended before the build did")
		patience = builds.LeaseTime // an aggregator that runs is quicker, and knows what the worker printed
	}
	now, err := t.Workers.Now(ctx)
	if err != nil || now.Before(row.LeaseUntil.Add(patience)) || now.Sub(row.CreatedAt) < builds.LeaseTime+patience { // an aggregator may be storing the end
		return err
	}
	_, err = t.Workers.Builds.Record(ctx, row.ID, builds.Event{Source: builds.Conductor, EventID: "lost", Status: build.Lost, Reason: "WorkerLost", Message: reason, At: now})
	return err
}

// abandon ends the worker of an attempt that ended before its build did. One that another process will continue runs on.
func (t *task) abandon(ctx context.Context, row builds.Build) {
	cause := context.Cause(ctx)
	if row.ID == 0 || cause != conductor.ErrCanceled && cause != conductor.ErrAttemptTimeout { //nolint:errorlint // causes are these values
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
	defer cancel()
	b := &table{Build: row, from: t.Workers.Builds}
	for _, err := range []error{t.Workers.Builds.RequestCancel(ctx, row.ID), b.report(ctx)} {
		if err != nil {
			t.Log.Warn("the cancel of a build cannot be stored", obs.KeyBuildID, int64(row.ID), obs.Error(err))
		}
	}
	t.release(ctx, row)
}

// release has the provisioner end a worker. One that this does not reach ends by the watchdog, or after its time to linger.
func (t *task) release(ctx context.Context, row builds.Build) {
	if row.WorkerID == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, endLimit)
	defer cancel()
	if err := t.Workers.Provisioner.Delete(ctx, row.WorkerID, false); err != nil {
		t.Log.Warn("worker cannot be deleted", obs.KeyBuildID, int64(row.ID), obs.KeyWorkerID, row.WorkerID, obs.Error(err))
	}
}
