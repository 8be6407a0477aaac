package build

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/conductor"
)

// Engine is another build engine.
type Engine struct {
	Start conductor.Handler // has it start the build that an attempt's parameters describe
	API   string            // address that it can reach this log's API at, without a path; "": not known
}

// engineParameters are the parameters with which another build engine starts a build.
type engineParameters struct {
	Build        builds.ID         `json:"build"`
	Project      string            `json:"project"`
	Repository   string            `json:"repository"`
	Subdirectory string            `json:"subdirectory"` // with the build's file; "": the root
	Commit       string            `json:"commit"`
	Branch       string            `json:"branch"`
	Stages       []string          `json:"stages"` // none: all
	Environment  string            `json:"environment"`
	Inputs       map[string]string `json:"inputs"`
	Report       string            `json:"report"` // where reports go: /status, /log, /artifact and /test-result below it
}

// startedEvent is the id of the remark that another build engine has taken the build.
const startedEvent = "started"

// startLimit bounds the request that starts a build in a build engine.
const startLimit = time.Minute

// waitEvery is the interval between reads of a build whose changes nothing announces.
const waitEvery = time.Minute

// atEngine makes an attempt at a build that another build engine runs: it has the build started there, once, and waits
// for the reported end.
func (h *Handler) atEngine(ctx context.Context, a conductor.Attempt, row builds.Build) (action.Outcome, error) {
	row, err := h.resolve(ctx, row)
	if err != nil {
		return action.Outcome{}, h.noteTrouble(ctx, row, err)
	}
	if err := h.startAtEngine(ctx, a, row); err != nil {
		return action.Outcome{}, err
	}
	row, err = h.awaitReports(ctx, row)
	if tookTooLong(ctx) {
		return h.expire(ctx, row), nil
	}
	if err != nil {
		return action.Outcome{}, err
	}
	return h.concludeAlone(ctx, h.table(row))
}

// awaitReports returns the row of a build once its end was reported. With an error it is the row that was read last.
func (h *Handler) awaitReports(ctx context.Context, row builds.Build) (builds.Build, error) {
	wait := h.Workers.Waiter()
	for {
		now, err := h.Workers.Builds.Build(ctx, row.ID)
		if err != nil {
			return row, err
		}
		if row = now; row.Status.Ended() {
			return row, nil
		}
		if err := wait(ctx, time.Now().Add(waitEvery)); err != nil {
			return row, err
		}
	}
}

// startAtEngine has the build engine of a row start its build, unless it has or the build has ended. An attempt that
// dies between the start and its remark is followed by one that repeats the request, with the same build.
func (h *Handler) startAtEngine(ctx context.Context, a conductor.Attempt, row builds.Build) error {
	started, err := h.Workers.Builds.HasEvent(ctx, row.ID, builds.Conductor, startedEvent)
	if err != nil || started || row.Status.Ended() {
		return err
	}
	engine, err := h.Workers.Engine(row.Engine)
	if err != nil {
		return fatal("no_engine", "%v", err)
	}
	p, err := h.project(row.Project)
	if err != nil {
		return err
	}
	// Neither list is null: a template may take its length.
	asked := engineParameters{row.ID, row.Project, p.URL, p.Subdirectory, row.Commit, row.Branch,
		append([]string{}, row.Stages...), row.Environment,
		row.Inputs, fmt.Sprintf("%s/api/build/%d", engine.API, row.ID)}
	if asked.Inputs == nil {
		asked.Inputs = map[string]string{}
	}
	if a.Action.Parameters, err = json.Marshal(asked); err != nil {
		return err
	}
	starting, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("the build engine did not answer within %s", startLimit))
	defer cancel()
	done := engine.Start.Do(starting, a)
	if done.Kind != action.Done {
		// The lane is that of the project, whose other builds may run atEngine.
		done.DisableLane, done.PauseLane, done.Refused = false, time.Time{}, false
		done.Error = fmt.Sprintf("the build engine %s did not take the build: %s", row.Engine, cmp.Or(done.Error, done.Code))
		return end{done}
	}
	// The engine may report the end before this is stored.
	ctx, stop := asking(context.WithoutCancel(ctx))
	defer stop()
	_, err = h.Workers.Builds.Record(ctx, row.ID,
		builds.Event{Source: builds.Conductor, EventID: startedEvent, Message: "started at " + row.Engine})
	return err
}
