package journal

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// HistoryQuery selects the deployments that started at a target, newest first.
type HistoryQuery struct {
	Pipeline string
	Target   string // full path of the pipeline, or of a stage, group or host
	Before   int64  // keyset: only starts below this seq; 0: all
	Limit    int    // 0: all
}

// Passage is one deployment's way through a target: the pipeline, a stage, a group or a host.
type Passage struct {
	Seq        int64     `json:"seq"` // number of the entry with which it started; of its last one if its archive cannot be read
	Deployment int64     `json:"deployment"`
	Kind       string    `json:"kind"` // kind of the deployment: forward | manual
	Revision   int64     `json:"revision"`
	Label      string    `json:"label"` // label of the revision
	StartedAt  time.Time `json:"startedAt"`
	EndedAt    time.Time `json:"endedAt,omitzero"`
	Outcome    string    `json:"outcome,omitempty"`  // finished | failed | stopped | superseded | canceled; "" while it runs
	Failures   int       `json:"failures,omitempty"` // how often it failed here; a retry may have followed
	// text of the last failure; or the reason why the archive of the deployment cannot be read
	Error   string           `json:"error,omitempty"`
	Entries []pipeline.Entry `json:"entries"` // at this target, in order, without step-reported
}

// OutcomeStopped is the outcome of a passage whose deployment failed elsewhere.
const OutcomeStopped = "stopped"

// History lists the deployments that started at a target, newest first. A target at which nothing
// started, or that does not exist, has none.
func (j *Journal) History(ctx context.Context, q HistoryQuery) (passages []Passage, err error) {
	err = j.list(ctx, "read the history of "+q.Target, func(tx *txn) error {
		passages = nil
		entries, err := tx.History(q.Pipeline, q.Target, q.Before, q.Limit)
		if err != nil || len(entries) == 0 {
			return err
		}
		var numbers []int64
		for i, e := range entries {
			if i == 0 || e.Deployment != entries[i-1].Deployment {
				numbers = append(numbers, e.Deployment)
			}
		}
		made, err := tx.Deployments(DeploymentQuery{Pipeline: q.Pipeline, Numbers: numbers})
		if err != nil {
			return err
		}
		passages, err = passagesOf(entries, made)
		return err
	})
	return passages, err
}

// passagesOf groups the entries of a target by deployment, in their order. It returns fault.Corrupt
// if a deployment is missing: its row was stored before its entries, and is never deleted.
func passagesOf(entries []pipeline.Entry, made []Deployment) ([]Passage, error) {
	byNumber := make(map[int64]Deployment, len(made))
	for _, d := range made {
		byNumber[d.Number] = d
	}
	var passages []Passage
	for len(entries) > 0 {
		end := 0
		for end < len(entries) && entries[end].Deployment == entries[0].Deployment {
			end++
		}
		d, ok := byNumber[entries[0].Deployment]
		if !ok {
			return nil, fault.New(fault.Corrupt, "deployment %d of %s is missing", entries[0].Deployment, entries[0].Pipeline)
		}
		passages = append(passages, passageOf(entries[:end], d))
		entries = entries[end:]
	}
	return passages, nil
}

// PassageOf returns a deployment's way through a target, by its entries at the target and below it. It is false if the
// deployment did not start there.
func PassageOf(target string, entries []pipeline.Entry, d Deployment) (Passage, bool) {
	var here []pipeline.Entry
	for _, e := range entries {
		if e.Target == target && e.Event != pipeline.StepReported {
			here = append(here, e)
		}
	}
	if len(here) == 0 {
		return Passage{}, false
	}
	p := passageOf(here, d)
	return p, p.Seq != 0
}

// passageOf returns the passage of a deployment by its entries at one target.
func passageOf(entries []pipeline.Entry, d Deployment) Passage {
	p := Passage{Deployment: d.Number, Kind: d.Kind, Revision: d.Revision, Label: d.Label, Entries: entries}
	for _, e := range entries {
		switch e.Event {
		case pipeline.PipelineStarted, pipeline.StageStarted, pipeline.GroupStarted, pipeline.HostStarted:
			p.Seq, p.StartedAt = e.Seq, e.At
		case pipeline.StepClaimed, pipeline.RetryRequested: // it works again after a failure
			if p.Outcome == string(pipeline.StatusFailed) {
				p.Outcome, p.EndedAt = "", time.Time{}
			}
		}
		if r, ok := rollUpOf(e); ok && r.Failed {
			p.Failures++
			p.Outcome, p.EndedAt, p.Error = string(pipeline.StatusFailed), e.At, errorOf(e)
		} else if ok {
			p.Outcome, p.EndedAt = string(pipeline.StatusFinished), e.At
		}
	}
	p.endWith(d)
	return p
}

// endWith completes the outcome of a passage by the status of its deployment. A stage or a group that
// failed runs again when its deployment is active, because the retry may have been about a host in it.
func (p *Passage) endWith(d Deployment) {
	isHost := strings.Count(p.Entries[0].Target, "/") == 3
	switch failed := p.Outcome == string(pipeline.StatusFailed); {
	case failed && d.Status == pipeline.StatusActive && !isHost:
		p.Outcome, p.EndedAt = "", time.Time{}
	case p.Outcome != "" || d.Status == pipeline.StatusActive:
	case d.Status == pipeline.StatusFailed:
		p.Outcome, p.EndedAt = OutcomeStopped, d.EndedAt
	default:
		p.Outcome, p.EndedAt = string(d.Status), d.EndedAt
	}
}

// errorOf returns the error in the detail of a failure; "" if it has none.
func errorOf(e pipeline.Entry) string {
	var detail pipeline.StepDetail
	if json.Unmarshal(e.Detail, &detail) != nil {
		return ""
	}
	return detail.Error
}

// Standings returns a summary of the log for each target, by target. One that nothing has happened to is left out.
func (j *Journal) Standings(ctx context.Context, name string, targets []string) (found map[string]Standing, err error) {
	err = j.list(ctx, "read what is at targets of "+name, func(tx *txn) error {
		some, err := tx.Standings(name, targets)
		found = make(map[string]Standing, len(some))
		for _, s := range some {
			found[s.Target] = s
		}
		return err
	})
	return found, err
}

// EndedRuns lists the runs through stages that ended at a time or later, by their ends; stage "" is
// all.
func (j *Journal) EndedRuns(ctx context.Context, name, stage string, since time.Time) (runs []EndedRun, err error) {
	err = j.list(ctx, "read the stages of "+name, func(tx *txn) error {
		runs, err = tx.EndedRuns(name, stage, since)
		return err
	})
	return runs, err
}

// NewestFinished returns the newest revision that finished each stage before a time, by stage.
func (j *Journal) NewestFinished(ctx context.Context, name string, before time.Time) (newest map[string]int64, err error) {
	err = j.list(ctx, "read the stages of "+name, func(tx *txn) error {
		newest, err = tx.NewestFinished(name, before)
		return err
	})
	return newest, err
}

// RevisionsBetween lists the revisions after one seq and before another, newest first, without their
// artifacts; limit 0: all.
func (j *Journal) RevisionsBetween(ctx context.Context, name string, after, before int64,
	limit int) (some []pipeline.RegisteredRevision, err error) {
	err = j.list(ctx, "read revisions of "+name, func(tx *txn) error {
		some, err = tx.RevisionsBetween(name, after, before, limit)
		return err
	})
	return some, err
}
