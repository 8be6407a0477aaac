package build

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
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

// Workers runs the builds of the database. Every field must be set, but without a Provisioner Keys need not be.
type Workers struct {
	Builds      *builds.Builds
	Provisioner Provisioner                                  // nil: builds of deployments are children of this process
	Instance    string                                       // label of the workers
	Now         func(ctx context.Context) (time.Time, error) // the database's time
	// Waiter returns a function that returns when a build may have changed, and at a time in any case.
	Waiter  func() func(ctx context.Context, until time.Time) error
	Project func(name string) (Project, error) // by its name, as it is now
	Engine  func(name string) (Engine, error)  // by its name, as it is now
	// ProjectOf returns the name of the project with a number; "": none. nil: there are none.
	ProjectOf func(id string) string
	// Inputs reads the inputs of the file at a commit of a project; none if the file is missing or cannot be understood.
	Inputs func(ctx context.Context, project, branch, commit string) ([]build.Input, error)
	Keys   build.BuilderKeys // keys that seal passwords of builds
	// Hasten has actions that wait for a worker be attempted again after a time.
	Hasten func(ctx context.Context, wait time.Duration, ids ...action.ID) error
}

// Times of an attempt in a worker.
const (
	fullPause = 5 * time.Second // delay before there may be room, unless the provisioner names one
	awayPause = 10 * time.Second
	lookEvery = 5 * time.Second  // at the worker
	endLimit  = 30 * time.Second // bounds the requests beside the attempt
	roomAfter = time.Second      // after a worker was asked to end, as a rule, there is room for another
)

// mostHastened bounds the builds that are attempted again because another has ended.
const mostHastened = 20

// asking bounds requests beside the attempt itself.
func asking(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, endLimit, fmt.Errorf("no answer within %s", endLimit))
}

// inWorker has a worker make the attempt, or continue an attempt that was not reported, and returns its results.
func (t *task) inWorker(ctx context.Context) (*table, error) {
	row, err := t.row(ctx)
	if err != nil {
		return nil, err
	}
	row, err = t.runInWorker(ctx, row, t.request)
	return t.table(row), err
}

// table returns the results of a build's worker.
func (h *Handler) table(row builds.Build) *table {
	return &table{Build: row, from: h.Workers.Builds, blobs: h.Blobs}
}

// request returns the request for the worker of a build, the same each time.
type request func(ctx context.Context, row builds.Build) (provisionerv1.CreateWorker, error)

// runInWorker starts the worker of a build, unless it has one, and returns the build's row once it has ended.
func (h *Handler) runInWorker(ctx context.Context, row builds.Build, request request) (builds.Build, error) {
	if row.Status.Ended() {
		return row, nil
	}
	worker, err := h.start(ctx, row, request)
	if row.WorkerID = worker; err == nil {
		row, err = h.await(ctx, row)
	}
	if err != nil {
		h.abandon(ctx, row)
	}
	return row, err
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
	return t.Workers.Builds.Create(ctx, builds.Build{Project: t.revision.Pipeline, Branch: t.revision.Branch,
		Commit: t.revision.Commit, Revision: t.revision.Label,
		Deployment: step.Deployment, Target: step.Target, Stages: t.stages(), ActionID: id, Nonce: rand.Text(),
		CreatedBy: t.attempt.Action.CreatedBy})
}

// stages returns the stages of the build's file that are built; nil: all.
func (t *task) stages() []string {
	if t.stage.Build.Stage == "" {
		return nil
	}
	return []string{t.stage.Build.Stage}
}

// request returns the request for the worker of a row.
func (t *task) request(_ context.Context, row builds.Build) (provisionerv1.CreateWorker, error) {
	if t.Workers.ProjectOf != nil {
		if other := t.Workers.ProjectOf(row.Project); other != "" && other != row.Project {
			return provisionerv1.CreateWorker{}, fatal("project_id",
				"the pipeline %s is called like the number of the project %s in builds.projects, and would have its Secrets: rename "+
					"the pipeline, or give the project another id",
				row.Project, other)
		}
	}
	return provisionerv1.CreateWorker{
		BuildID: int64(row.ID), Project: row.Project, Instance: t.Workers.Instance, Nonce: row.Nonce, Revision: t.revision.Label,
		Snapshot: t.revision.Snapshot, File: t.stage.Build.File, Stages: t.stages(), Variables: t.variables(),
	}, nil
}

// start has the provisioner start the worker of a row, unless it has, and returns the worker's id.
func (h *Handler) start(ctx context.Context, row builds.Build, request request) (string, error) {
	if row.WorkerID != "" {
		return row.WorkerID, nil
	}
	want, err := request(ctx, row)
	if err != nil {
		return "", err
	}
	created, err := h.Workers.Provisioner.Create(ctx, want)
	switch fault.CodeOf(err) {
	case fault.Unavailable, fault.Unauthorized, fault.Forbidden: // a token can be put right while builds wait
		if ctx.Err() == nil {
			return "", end{action.Outcome{Kind: action.Throttle, Code: string(fault.CodeOf(err)), Error: err.Error(), At: time.Now().Add(awayPause)}}
		}
	}
	if want.Earlier != nil && (fault.Is(err, fault.NotFound) || fault.Is(err, fault.TooLarge)) {
		return "", h.withoutEarlier(ctx, row, err)
	}
	if err != nil {
		return "", err
	}
	if w := created.Waiting; w != nil {
		of := ""
		if w.Project != "" {
			of = " of project " + w.Project
		}
		return "", end{waiting(fmt.Sprintf("queued: %d workers%s run, and %d may at a time", w.Running, of, w.Limit), created.Retry)}
	}
	if err := h.Workers.Builds.Assign(ctx, row.ID, created.Worker.WorkerID, row.Nonce); err != nil {
		return created.Worker.WorkerID, err
	}
	h.hasten(ctx, 0) // it is another build's turn
	return created.Worker.WorkerID, nil
}

// hasten has the builds that wait for a worker request one soon: the oldest of each project and pipeline, since the
// limits may leave room for any of these. Without it they repeat their requests after their pause.
func (h *Handler) hasten(ctx context.Context, wait time.Duration) {
	queue, err := h.Workers.Builds.Queue(ctx)
	var ids []action.ID
	seen := map[builds.Queued]bool{}
	for _, q := range queue {
		of := builds.Queued{Project: q.Project}
		if q.Revision != "" {
			of.Revision = "any"
		}
		if !seen[of] && len(ids) < mostHastened {
			seen[of], ids = true, append(ids, q.ActionID)
		}
	}
	if err == nil && len(ids) > 0 {
		err = h.Workers.Hasten(ctx, wait, ids...)
	}
	if err != nil {
		h.Log.Warn("builds that wait cannot be hastened", obs.Error(err))
	}
}

// CodeWaiting is the code of the outcome of an attempt that has to wait for a worker.
const CodeWaiting = "waiting"

// waiting returns the outcome of an attempt that has to wait for a worker.
func waiting(text string, pause time.Duration) action.Outcome {
	return action.Outcome{Kind: action.RetryAfter, Code: CodeWaiting, Error: text, At: time.Now().Add(cmp.Or(pause, fullPause))}
}

// await returns the row of a build once it has ended. A build that is to be canceled loses its worker in the
// meantime.
func (h *Handler) await(ctx context.Context, row builds.Build) (builds.Build, error) {
	wait := h.Workers.Waiter()
	look, released := time.Now().Add(lookEvery), false
	for {
		now, err := h.Workers.Builds.Build(ctx, row.ID)
		if err != nil {
			return row, err
		}
		if row = now; row.Status.Ended() {
			return row, nil
		}
		if !row.CancelRequestedAt.IsZero() && !released {
			released = h.release(ctx, row) // the worker cancels its build, and stays until its results are taken
		}
		if err := wait(ctx, look); err != nil {
			return row, err
		}
		if time.Now().Before(look) {
			continue
		}
		if err := h.lookAt(ctx, row); err != nil {
			return row, err
		}
		look = time.Now().Add(lookEvery)
	}
}

// lookAt ends a build as Lost whose worker has gone and whose results cannot grow. A provisioner that does not
// answer proves nothing about the worker.
func (h *Handler) lookAt(ctx context.Context, row builds.Build) error {
	asked, cancel := asking(ctx)
	defer cancel()
	list, err := h.Workers.Provisioner.List(asked, provisionerv1.Filter{BuildID: int64(row.ID)})
	if err == nil && !list.Complete {
		err = fault.New(fault.Unavailable, "the provisioner cannot list all workers")
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		h.Log.Warn("the worker of a build cannot be looked at", obs.KeyBuildID, int64(row.ID), obs.Error(err))
		return nil
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
		patience = builds.LeaseTime // an aggregator that runs is quicker, and knows the output of the worker
	}
	now, err := h.Workers.Now(ctx)
	// an aggregator may be storing the end
	if err != nil || now.Before(row.LeaseUntil.Add(patience)) || now.Sub(row.CreatedAt) < builds.LeaseTime+patience {
		return err
	}
	_, err = h.Workers.Builds.Record(ctx, row.ID,
		builds.Event{Source: builds.Conductor, EventID: "lost", Status: build.Lost, Reason: "WorkerLost", Message: reason, At: now})
	return err
}

// abandon ends the worker of an attempt that ended before its build did. One that another process will continue runs on.
func (h *Handler) abandon(ctx context.Context, row builds.Build) {
	if row.ID == 0 || !errors.Is(context.Cause(ctx), conductor.ErrCanceled) && !tookTooLong(ctx) {
		return
	}
	ctx, cancel := asking(context.WithoutCancel(ctx))
	defer cancel()
	b := &table{Build: row, from: h.Workers.Builds}
	for _, err := range []error{h.Workers.Builds.RequestCancel(ctx, row.ID), b.report(ctx)} {
		if err != nil {
			h.Log.Warn("the cancel of a build cannot be stored", obs.KeyBuildID, int64(row.ID), obs.Error(err))
		}
	}
	h.release(ctx, row)
}

// release has the provisioner end a worker, and reports whether it has. One that this does not reach ends by the watchdog, or after its
// time to linger.
func (h *Handler) release(ctx context.Context, row builds.Build) bool {
	ctx, cancel := asking(ctx)
	defer cancel()
	workers := []string{row.WorkerID}
	if row.WorkerID == "" { // it may have been started without that this was stored
		list, err := h.Workers.Provisioner.List(ctx, provisionerv1.Filter{BuildID: int64(row.ID), Instance: h.Workers.Instance})
		if err != nil {
			h.Log.Warn("the worker of a build cannot be looked for", obs.KeyBuildID, int64(row.ID), obs.Error(err))
			return false
		}
		workers = nil
		for _, w := range list.Workers {
			workers = append(workers, w.WorkerID)
		}
	}
	for _, worker := range workers {
		if err := h.Workers.Provisioner.Delete(ctx, worker, false); err != nil {
			h.Log.Warn("worker cannot be deleted", obs.KeyBuildID, int64(row.ID), obs.KeyWorkerID, worker, obs.Error(err))
			return false
		}
	}
	return true
}
