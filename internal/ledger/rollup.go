package ledger

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/schedule"
)

// rollUp keeps the rows that answer "where are you?" true to the entries just
// appended. They hold nothing that the log does not.
func (t *txn) rollUp(head *HeadRow, entries []schedule.Entry) error {
	var r rollUps
	for _, e := range entries {
		if p, ok := passage(e); ok {
			r.passages = append(r.passages, p)
		}
		if err := t.rollUpEntry(head, e, &r); err != nil {
			return err
		}
	}
	if len(r.passages) > 0 {
		if err := t.RollUp(head.ID, r.passages); err != nil {
			return err
		}
	}
	if len(r.resources) > 0 {
		return t.PutResources(head.ID, r.resources)
	}
	return nil
}

// rollUps are the rows that are written in bulk.
type rollUps struct {
	passages  []Passage
	resources []Resource
}

func (t *txn) rollUpEntry(head *HeadRow, e schedule.Entry, r *rollUps) error {
	switch e.Event {
	case schedule.HostStarted, schedule.HostFinished:
		resource, ok, err := t.resource(head, e)
		if ok {
			r.resources = append(r.resources, resource)
		}
		return err
	case schedule.StageStarted, schedule.StageFinished, schedule.StageFailed:
		return t.PutStageRun(head.ID, stageRun(e))
	case schedule.PipelineFinished:
		return t.setStatus(head, e, schedule.Finished)
	case schedule.PipelineFailed:
		return t.setStatus(head, e, schedule.FailedRun)
	case schedule.PipelineSuperseded:
		return t.setStatus(head, e, schedule.Superseded)
	case schedule.PipelineCanceled:
		return t.setStatus(head, e, schedule.CanceledRun)
	case schedule.RetryRequested:
		return t.reopen(head, e)
	case schedule.StepIntroduced:
		return t.introduce(head, e)
	}
	return nil
}

// setStatus ends a deployment, and with it the stages that it is inside.
func (t *txn) setStatus(head *HeadRow, e schedule.Entry, status schedule.Status) error {
	if err := t.SetDeploymentStatus(head.ID, e.Deployment, status, e.At); err != nil {
		return err
	}
	if status == schedule.Finished {
		return nil
	}
	return t.eachStageRun(head, e.Deployment, func(run *StageRun) bool {
		open := run.Outcome == ""
		run.EndedAt, run.Outcome = e.At, string(status)
		return open
	})
}

// reopen makes a deployment active again: a retried one has pipeline-failed behind it.
func (t *txn) reopen(head *HeadRow, e schedule.Entry) error {
	if err := t.SetDeploymentStatus(head.ID, e.Deployment, schedule.Active, time.Time{}); err != nil {
		return err
	}
	return t.eachStageRun(head, e.Deployment, func(run *StageRun) bool {
		failed := run.Outcome == string(schedule.FailedRun)
		run.EndedAt, run.Outcome = time.Time{}, ""
		return failed
	})
}

// eachStageRun writes those of a deployment's stage runs back that change says it has changed.
func (t *txn) eachStageRun(head *HeadRow, deployment int64, change func(*StageRun) bool) error {
	runs, err := t.StageRuns(head.Pipeline, deployment)
	if err != nil {
		return err
	}
	for _, run := range runs {
		if !change(&run) {
			continue
		}
		if err := t.PutStageRun(head.ID, run); err != nil {
			return err
		}
	}
	return nil
}

// stageRun is what a stage's own entry says of its run. A start keeps what is
// there; the drivers write StartedAt only once.
func stageRun(e schedule.Entry) StageRun {
	run := StageRun{Deployment: e.Deployment, Stage: stageOf(e.Target), Revision: e.Revision, StartedAt: e.At}
	switch e.Event {
	case schedule.StageFinished:
		run.EndedAt, run.Outcome = e.At, string(schedule.Finished)
	case schedule.StageFailed:
		run.EndedAt, run.Outcome = e.At, string(schedule.FailedRun)
	}
	return run
}

// stageOf is the stage's name in a full path.
func stageOf(target string) string {
	_, rest, _ := strings.Cut(target, "/")
	stage, _, _ := strings.Cut(rest, "/")
	return stage
}

// resource is what runs where, by a host's start or finish. ok is false for a
// host that the definition in force no longer has.
func (t *txn) resource(head *HeadRow, e schedule.Entry) (r Resource, ok bool, err error) {
	k, err := t.definition(head)
	if err != nil {
		return Resource{}, false, err
	}
	of, ok := k.resources[e.Target]
	if !ok {
		return Resource{}, false, nil
	}
	r = Resource{Address: of.Address, Service: of.Service, Pipeline: head.Pipeline, Target: e.Target,
		Deployment: e.Deployment, Revision: e.Revision, At: e.At}
	if e.Event == schedule.HostFinished {
		r.Finished = e.Deployment
	}
	return r, true, nil
}

// introduce keeps what an edit brought into a stage.
func (t *txn) introduce(head *HeadRow, e schedule.Entry) error {
	i := Introduction{Stage: stageOf(e.Target), Version: e.Version, RevisionAfter: head.Newest}
	var detail struct {
		Event         string `json:"event"`
		RevisionAfter *int64 `json:"revisionAfter"`
		Strict        bool   `json:"strict"`
	}
	if err := json.Unmarshal(e.Detail, &detail); err != nil {
		return err
	}
	i.Event, i.Strict = detail.Event, detail.Strict
	if detail.RevisionAfter != nil {
		i.RevisionAfter = *detail.RevisionAfter
	}
	return t.InsertIntroduction(head.ID, i)
}

// passage is what a finish or a failure says of its target.
func passage(e schedule.Entry) (Passage, bool) {
	p := Passage{Target: e.Target, Deployment: e.Deployment, Revision: e.Revision, At: e.At}
	switch e.Event {
	case schedule.PipelineFinished, schedule.StageFinished, schedule.GroupFinished, schedule.HostFinished:
		return p, true
	case schedule.PipelineFailed, schedule.StageFailed, schedule.GroupFailed, schedule.HostFailed, schedule.StepFailed:
		p.Failed = true
		return p, true
	}
	return Passage{}, false
}
