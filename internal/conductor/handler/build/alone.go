package build

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/git"
	"github.com/waybill-dev/waybill/internal/obs"
)

// Project is the source of the files of builds without a deployment.
type Project struct {
	ID           string // names its Secrets; "": its name does, if that is a number
	URL          string
	Branch       string // unless the build names one; "": the repository's own
	Subdirectory string // "": the root
	Credential   string // name of credentials that the provisioner has; "": none are needed
	Credentials  string // file of git-credential-store, with which this process requests the branch; "": none
}

// tipLimit bounds the request for the newest commit of a branch.
const tipLimit = time.Minute

// fileLimit bounds the fetch of a commit for its build file.
const fileLimit = 5 * time.Minute

// alone makes an attempt at a build without a deployment. The row has been there from the start, so a build that
// failed is the end of its action: its repetition is a new build.
func (h *Handler) alone(ctx context.Context, a conductor.Attempt, id builds.ID) (action.Outcome, error) {
	row, err := h.Workers.Builds.Build(ctx, id)
	if err != nil {
		return action.Outcome{}, err
	}
	if row.Engine != "" {
		return h.atEngine(ctx, a, row)
	}
	if h.Workers.Provisioner == nil {
		return action.Outcome{Kind: action.Throttle, Code: string(fault.Unavailable), At: time.Now().Add(awayPause),
			Error: "this conductor's server.yaml names no provisioner: builder: {provisioner: {url: …}}"}, nil
	}
	if row, err = h.resolve(ctx, row); err != nil {
		return action.Outcome{}, h.noteTrouble(ctx, row, err)
	}
	if row, err = h.refusePlain(ctx, row); err != nil {
		return action.Outcome{}, h.noteTrouble(ctx, row, err)
	}
	if err := h.waitsForOlder(ctx, row); err != nil {
		return action.Outcome{}, err
	}
	row, err = h.runInWorker(ctx, row, h.requestAlone)
	if tookTooLong(ctx) {
		return h.expire(ctx, row), nil
	}
	if err != nil {
		return action.Outcome{}, err
	}
	done, err := h.concludeAlone(ctx, h.table(row))
	if err == nil {
		h.release(ctx, row)
		h.hasten(ctx, roomAfter)
		h.forget(ctx, row)
	}
	return done, err
}

// turnPause is the time that a build waits for each build before it, at most mostTurnPause.
const (
	turnPause     = 2 * time.Second
	mostTurnPause = 30 * time.Second
)

// waitsForOlder returns the outcome of an attempt if an older build of the project waits for a worker: builds of a project take turns.
func (h *Handler) waitsForOlder(ctx context.Context, row builds.Build) error {
	if row.WorkerID != "" || row.Status.Ended() {
		return nil
	}
	queue, err := h.Workers.Builds.Queue(ctx)
	before := 0
	for _, q := range queue {
		if q.ID < row.ID && q.Project == row.Project && q.Revision == "" {
			before++
		}
	}
	if err != nil || before == 0 {
		return err
	}
	return end{waiting(fmt.Sprintf("queued: older builds of project %s that wait: %d", row.Project, before),
		min(time.Duration(before)*turnPause, mostTurnPause))}
}

// resolve stores the commit that a build's branch is at, unless the build has one. Later attempts build the same commit.
func (h *Handler) resolve(ctx context.Context, row builds.Build) (builds.Build, error) {
	if row.Commit != "" || row.Status.Ended() {
		return row, nil
	}
	p, err := h.project(row.Project)
	if err != nil {
		return row, err
	}
	from := git.Clone{URL: p.URL, Branch: row.Branch, Credentials: p.Credentials}
	if from.Branch == "" {
		from.Branch = p.Branch
	}
	asking, cancel := context.WithTimeoutCause(ctx, tipLimit, fmt.Errorf("the repository did not answer within %s", tipLimit))
	defer cancel()
	at, ok, err := from.AtTip(asking)
	switch {
	case err != nil:
		return row, fault.Wrap(fault.Unavailable, err)
	case !ok && from.Branch == "":
		return row, fatal("no_branch", "%s has no commit yet", p.URL)
	case !ok:
		return row, fatal("no_branch", "%s has no branch %s", p.URL, from.Branch)
	}
	resolved, err := h.Workers.Builds.Resolve(ctx, row.ID, at.Branch, at.Commit)
	if err != nil {
		return row, err
	}
	return resolved, nil
}

// inputsEvent is the id of the event that no plain input of a build is a password.
const inputsEvent = "inputs-checked"

// refusePlain ends a build, before any worker has it, that was given a password as a plain input: only here is it
// known the file at the build's commit. It returns the build as it is then.
func (h *Handler) refusePlain(ctx context.Context, row builds.Build) (builds.Build, error) {
	if len(row.Inputs) == 0 || row.WorkerID != "" || row.Status.Ended() {
		return row, nil
	}
	if checked, err := h.Workers.Builds.HasEvent(ctx, row.ID, builds.Conductor, inputsEvent); checked || err != nil {
		return row, err
	}
	reading, cancel := context.WithTimeoutCause(ctx, fileLimit, fmt.Errorf("the repository did not answer within %s", fileLimit))
	defer cancel()
	inputs, err := h.Workers.Inputs(reading, row.Project, row.Branch, row.Commit)
	if err != nil {
		return row, fault.Wrap(fault.Unavailable, err)
	}
	var names []string
	var faults fault.Problems
	for _, in := range build.PlainPasswords(inputs, row.Inputs) {
		names = append(names, in.Name)
		faults.Add(in.PlainProblem())
	}
	if names == nil {
		_, err := h.Workers.Builds.Record(ctx, row.ID, builds.Event{Source: builds.Conductor, EventID: inputsEvent})
		return row, err
	}
	why := faults.Err().Error() + "\nThe value was erased."
	if err := h.Workers.Builds.RefusePlain(ctx, row.ID, names, why); err != nil {
		return row, err
	}
	return h.Workers.Builds.Build(ctx, row.ID)
}

// noteTrouble stores in a build why its repository does not answer, unless the build has it, and returns that error.
func (h *Handler) noteTrouble(ctx context.Context, row builds.Build, trouble error) error {
	if !fault.Is(trouble, fault.Unavailable) || ctx.Err() != nil {
		return trouble
	}
	e, news := row.Waits(builds.Event{Source: builds.Conductor, EventID: "repository", Reason: "Repository", Message: trouble.Error()})
	if !news {
		return trouble
	}
	_, err := h.Workers.Builds.Record(ctx, row.ID, e)
	return errors.Join(trouble, err)
}

func (h *Handler) project(name string) (Project, error) {
	p, err := h.Workers.Project(name)
	if err != nil {
		return p, fatal("no_project", "%v", err)
	}
	return p, nil
}

// requestAlone returns the request for the worker of a build without a deployment.
func (h *Handler) requestAlone(ctx context.Context, row builds.Build) (request provisionerv1.CreateWorker, err error) {
	p, err := h.project(row.Project)
	if err != nil {
		return request, err
	}
	inputs, err := h.passwords(ctx, row)
	if err != nil {
		return request, err
	}
	maps.Copy(inputs, row.Inputs)
	earlier, err := h.earlier(ctx, row)
	if err != nil {
		return request, err
	}
	return provisionerv1.CreateWorker{BuildID: int64(row.ID), Project: row.Project, ProjectID: p.ID,
		Instance: h.Workers.Instance, Nonce: row.Nonce,
		Repository: &provisionerv1.Repository{URL: p.URL, Commit: row.Commit, Branch: row.Branch,
			Subdirectory: p.Subdirectory, Credential: p.Credential},
		Earlier: earlier, Revision: short(row.Commit), Environment: row.Environment, Stages: row.Stages, Inputs: inputs}, nil
}

// passwords returns the passwords of a build by their names.
func (h *Handler) passwords(ctx context.Context, row builds.Build) (map[string]string, error) {
	found, err := h.Workers.Builds.Passwords(ctx, row.ID)
	if err != nil || len(found) == 0 {
		return map[string]string{}, err
	}
	values, err := builds.Unseal(h.Workers.Keys, row.ActionID, found[row.ID].Sealed)
	if err != nil {
		return nil, fatal("no_passwords", "the build's passwords cannot be read: %v", err)
	}
	return values, nil
}

// expire ends a build that took too long. Its worker was asked to end, and the output is still taken.
func (h *Handler) expire(ctx context.Context, row builds.Build) action.Outcome {
	text := "the build took too long: " + context.Cause(ctx).Error()
	ctx, cancel := asking(context.WithoutCancel(ctx))
	defer cancel()
	if _, err := h.Workers.Builds.Record(ctx, row.ID, builds.Event{Source: builds.Conductor, EventID: "timed-out", Status: build.TimedOut,
		Reason: "TimedOut", Message: text}); err != nil {
		h.Log.Warn("the end of a build cannot be stored", obs.KeyBuildID, int64(row.ID), obs.Error(err))
	}
	return action.Outcome{Kind: action.Expired, Code: action.CodeAttemptTimeout, Error: text, Ref: ref(h.table(row))}
}

// concludeAlone turns the end of a build into the end of its action.
func (h *Handler) concludeAlone(ctx context.Context, r *table) (action.Outcome, error) {
	switch r.Status {
	case build.Completed, build.Skipped:
		text, err := json.Marshal(output{Build: r.id()})
		return action.Outcome{Kind: action.Done, Output: text, Ref: ref(r)}, err
	case build.Canceled:
		return action.Outcome{Kind: action.Stopped, Code: action.CodeCanceled, Error: "the build was canceled", Ref: ref(r)}, nil
	}
	final, err := r.end(ctx)
	if err != nil {
		return action.Outcome{}, err
	}
	kind := action.Fatal
	if r.Status == build.TimedOut {
		kind = action.Expired
	}
	text, err := failure(ctx, r, *final)
	return action.Outcome{Kind: kind, Code: failureCode(r.Status), Error: text, Ref: ref(r)}, err
}
