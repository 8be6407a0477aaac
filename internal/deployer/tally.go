package deployer

import (
	"encoding/json"

	"github.com/waybill-dev/waybill/internal/pipeline"
)

// tally counts the deployments of a pipeline by status. An engine may have thousands that ended, so it looks only at
// those that a row may have changed; with another engine it counts again.
type tally struct {
	engine  *pipeline.Engine
	status  map[int64]pipeline.Status
	count   map[pipeline.Status]int
	changed map[int64]bool // deployments whose status a row may have changed since
}

// notice remembers a row that changes the status of its deployment, or that names deployments that are no longer
// counted.
func (t *tally) notice(row pipeline.Entry) {
	switch row.Event {
	case pipeline.DeploymentsArchived:
		var gone pipeline.ArchivedDetail
		_ = json.Unmarshal(row.Detail, &gone) // what cannot be read names none, to the engine too
		for _, number := range gone.Deployments {
			t.change(number)
		}
	case pipeline.DeploymentCreated, pipeline.PipelineFinished, pipeline.PipelineFailed, pipeline.PipelineSuperseded,
		pipeline.PipelineCanceled, pipeline.RetryRequested:
		t.change(row.Deployment)
	}
}

func (t *tally) change(number int64) {
	if t.changed == nil {
		t.changed = map[int64]bool{}
	}
	t.changed[number] = true
}

// follow brings the counts to the state of an engine that has applied the rows that were noticed.
func (t *tally) follow(e *pipeline.Engine) {
	if t.engine != e {
		*t = tally{engine: e, status: map[int64]pipeline.Status{}, count: map[pipeline.Status]int{}}
		for _, d := range e.Deployments(false) {
			t.set(d.Deployment, d.Status)
		}
		return
	}
	for number := range t.changed {
		if d, ok := e.Deployment(number); ok {
			t.set(number, d.Status)
		} else if before, counted := t.status[number]; counted { // archived
			t.count[before]--
			delete(t.status, number)
		}
	}
	clear(t.changed)
}

// set counts a deployment with its new status.
func (t *tally) set(number int64, status pipeline.Status) {
	if before, counted := t.status[number]; counted {
		t.count[before]--
	}
	t.status[number] = status
	t.count[status]++
}
