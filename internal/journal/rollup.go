package journal

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/pipeline"
)

// rollUp updates the rows that answer "where are you?" by the entries just appended. They hold nothing
// that the log does not. They change in the transaction of the entries, so that no reader sees one
// without the other. Entries must come in the order of their positions, since the last one counts.
func (t *txn) rollUp(head *HeadRow, entries []pipeline.Entry) error {
	r := rollUps{changed: map[changedRun]bool{}}
	for _, e := range entries {
		if p, ok := rollUpOf(e); ok {
			r.targets = append(r.targets, p)
		}
		if err := t.rollUpEntry(head, e, &r); err != nil {
			return err
		}
	}
	if len(r.targets) > 0 {
		if err := t.RollUp(head.ID, r.targets); err != nil {
			return err
		}
	}
	if len(r.resources) > 0 {
		return t.PutResources(head.ID, lastOfEach(r.resources))
	}
	return nil
}

// lastOfEach returns each resource once, as several changes one after the other leave it: a host that starts and
// finishes in one transaction is one row. A start does not know the finished deployment, so it keeps that of the
// change before.
func lastOfEach(changes []Resource) []Resource {
	type key struct{ address, service string }
	last := make([]Resource, 0, len(changes))
	at := make(map[key]int, len(changes))
	for _, r := range changes {
		i, found := at[key{r.Address, r.Service}]
		if !found {
			at[key{r.Address, r.Service}] = len(last)
			last = append(last, r)
			continue
		}
		if r.Finished == 0 {
			r.Finished = last[i].Finished
		}
		last[i] = r
	}
	return last
}

// rollUps are the rows that are written in bulk, because one transaction may end many hosts.
type rollUps struct {
	targets   []RollUp
	resources []Resource
	changed   map[changedRun]bool // runs whose first host of this transaction is recorded
}

// changedRun is a run of a stage that has started a host.
type changedRun struct {
	deployment int64
	stage      string
}

// rollUpEntry adds an entry's resource to r, and writes the entry's changes in its deployment and stage. Such entries
// are few, so each costs its own statement.
func (t *txn) rollUpEntry(head *HeadRow, e pipeline.Entry, r *rollUps) error {
	switch e.Event {
	case pipeline.HostStarted, pipeline.HostFinished:
		resource, ok, err := t.resource(head, e)
		if ok {
			r.resources = append(r.resources, resource)
		}
		if err != nil || e.Event == pipeline.HostFinished {
			return err
		}
		return t.putChanged(head, e, r)
	case pipeline.StageStarted, pipeline.StageFinished, pipeline.StageFailed:
		return t.PutStageRun(head.ID, stageRun(e))
	case pipeline.PipelineFinished:
		return t.setStatus(head, e, pipeline.StatusFinished)
	case pipeline.PipelineFailed:
		return t.setStatus(head, e, pipeline.StatusFailed)
	case pipeline.PipelineSuperseded:
		return t.setStatus(head, e, pipeline.StatusSuperseded)
	case pipeline.PipelineCanceled:
		return t.setStatus(head, e, pipeline.StatusCanceled)
	case pipeline.RetryRequested:
		return t.reopen(head, e)
	case pipeline.StepIntroduced:
		return t.introduce(head, e)
	case pipeline.RevisionRejected:
		return t.SetRevisionState(head.ID, e.Revision, RevisionRejected)
	case pipeline.RevisionAccepted:
		return t.accept(head, e)
	}
	return nil
}

// putChanged records once for each stage that a deployment has started a host in it. The stage is
// open then: a stage ends after its hosts, and a failed one starts none before a retry opens it.
func (t *txn) putChanged(head *HeadRow, e pipeline.Entry, r *rollUps) error {
	run := stageRun(e)
	key := changedRun{run.Deployment, run.Stage}
	if r.changed[key] {
		return nil
	}
	r.changed[key] = true
	return t.PutStageRun(head.ID, run)
}

// setStatus ends a deployment, and with it the stages that it is inside. Stages that have ended keep
// their own outcome.
func (t *txn) setStatus(head *HeadRow, e pipeline.Entry, status pipeline.Status) error {
	if err := t.SetDeploymentStatus(head.ID, e.Deployment, status, e.At); err != nil {
		return err
	}
	if status == pipeline.StatusFinished {
		return nil
	}
	return t.eachStageRun(head, e.Deployment, func(run *StageRun) bool {
		open := run.Outcome == ""
		run.EndedAt, run.Outcome = e.At, string(status)
		return open
	})
}

// reopen makes a deployment active again: a retried one has pipeline-failed behind it. Its failed
// stages are open again too, and keep their first start.
func (t *txn) reopen(head *HeadRow, e pipeline.Entry) error {
	if err := t.SetDeploymentStatus(head.ID, e.Deployment, pipeline.StatusActive, time.Time{}); err != nil {
		return err
	}
	return t.eachStageRun(head, e.Deployment, func(run *StageRun) bool {
		failed := run.Outcome == string(pipeline.StatusFailed)
		run.EndedAt, run.Outcome = time.Time{}, ""
		return failed
	})
}

// eachStageRun calls change with each stage run of a deployment, and writes the run back if change
// returns true.
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

// stageRun returns the run that an entry of a stage, or the start of a host, describes. Each has the
// time of the entry as its start, of which the drivers keep the first.
func stageRun(e pipeline.Entry) StageRun {
	run := StageRun{Deployment: e.Deployment, Stage: stageOf(e.Target), Revision: e.Revision, StartedAt: e.At}
	switch e.Event {
	case pipeline.StageFinished:
		run.EndedAt, run.Outcome = e.At, string(pipeline.StatusFinished)
	case pipeline.StageFailed:
		run.EndedAt, run.Outcome, run.FailedAt = e.At, string(pipeline.StatusFailed), e.At
	case pipeline.HostStarted:
		run.Changed = true
	}
	return run
}

// stageOf returns the stage's name in a full path, such as prod in greeter/prod/east/elm.
func stageOf(target string) string {
	_, rest, _ := strings.Cut(target, "/")
	stage, _, _ := strings.Cut(rest, "/")
	return stage
}

// resource returns what runs where by a host's start or finish. ok is false for a host that the
// definition in force no longer has: its address is not known here, and its row stays as the last
// start wrote it.
func (t *txn) resource(head *HeadRow, e pipeline.Entry) (r Resource, ok bool, err error) {
	k, err := t.definition(head)
	if err != nil {
		return Resource{}, false, err
	}
	of, ok := k.resources()[e.Target]
	if !ok {
		return Resource{}, false, nil
	}
	r = Resource{Address: of.Address, Service: of.Service, Pipeline: head.Pipeline, Target: e.Target,
		Deployment: e.Deployment, Revision: e.Revision, At: e.At}
	if e.Event == pipeline.HostFinished {
		r.Finished = e.Deployment
	}
	return r, true, nil
}

// introduce stores the targets that an edit brought into a stage. A detail without a revision means the newest one
// under the lock.
func (t *txn) introduce(head *HeadRow, e pipeline.Entry) error {
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

// rollUpOf returns the roll-up of a finish or a failure; ok is false for other entries.
func rollUpOf(e pipeline.Entry) (RollUp, bool) {
	p := RollUp{Target: e.Target, Deployment: e.Deployment, Revision: e.Revision, At: e.At}
	switch e.Event {
	case pipeline.PipelineFinished, pipeline.StageFinished, pipeline.GroupFinished, pipeline.HostFinished:
		return p, true
	case pipeline.PipelineFailed, pipeline.StageFailed, pipeline.GroupFailed, pipeline.HostFailed, pipeline.StepFailed:
		p.Failed = true
		return p, true
	}
	return RollUp{}, false
}
