package service

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// TargetRequest requests a deployment that the engine makes up for a target: a rollback or a catch-up.
type TargetRequest struct {
	Pipeline string `json:"pipeline"`
	Target   string `json:"target,omitempty"` // a stage, group or host, with or without the pipeline's name; "": the pipeline
	Reason   string `json:"reason,omitempty"`
	By       string `json:"by,omitempty"`
	To       string `json:"to,omitempty"` // pipelines of Kubernetes: the revision to bring back; "": the last that finished there

	// Undoes and Revision are what a person was shown of a rollback. One that would do something else is refused; 0 and ""
	// agree with any.
	Undoes   int64  `json:"undoes,omitempty"`   // the deployment that is undone
	Revision string `json:"revision,omitempty"` // label of the revision that is brought back
}

// checkSeen returns fault.Refused if the row that creates a rollback is not about what a person was shown.
func (want TargetRequest) checkSeen(created pipeline.Entry) error {
	now, err := undoingOf(created)
	if err != nil {
		return err
	}
	if want.Undoes != 0 && want.Undoes != now.Undoes || want.Revision != "" && want.Revision != now.Label {
		return fault.New(fault.Refused, "the rollback would now undo %s and bring back %s", Ref{want.Pipeline, now.Undoes}, now.Label).
			WithHint("look at what it does, and confirm it again")
	}
	return nil
}

// undoing is the detail of the row that creates a rollback or a catch-up.
type undoing struct {
	Label  string // label of the revision that is brought back
	Undoes int64
	Hosts  []string
	Lost   []string // those of Hosts that do not have the release in the log
}

func undoingOf(created pipeline.Entry) (u undoing, err error) {
	if err := json.Unmarshal(created.Detail, &u); err != nil {
		return u, fmt.Errorf("read the rollback %s#%d: %w", created.Pipeline, created.Deployment, err)
	}
	return u, nil
}

// Rollback creates a deployment that brings back the newest older revision that finished the stages of the target,
// and rejects the revision that it undoes. The error is fault.Refused if there is nothing to undo, no such revision,
// or another than the person was shown.
func (s *Service) Rollback(ctx context.Context, want TargetRequest) (journal.Deployment, error) {
	if OfKubernetes(want.Pipeline) {
		return s.rollBackEnvironment(ctx, want, false)
	}
	if want.To != "" {
		return journal.Deployment{}, fault.New(fault.Refused, "to: a rollback of %s brings back the newest older revision", want.Pipeline)
	}
	return s.createDecided(ctx, want, func(e *pipeline.Engine, target string) ([]pipeline.Entry, error) {
		rows, err := e.Rollback(pipeline.Rollback{Target: target, By: want.By, Reason: want.Reason})
		if err != nil {
			return nil, err
		}
		return rows, want.checkSeen(rows[len(rows)-1])
	})
}

// createDecided appends rows that the engine decides on. The last row creates the deployment.
func (s *Service) createDecided(ctx context.Context, want TargetRequest, decide func(e *pipeline.Engine,
	target string) ([]pipeline.Entry, error)) (d journal.Deployment, err error) {
	if err := checkReason(want.Reason); err != nil {
		return d, err
	}
	if _, err := s.ReadHead(ctx, want.Pipeline); err != nil {
		return d, err
	}
	var number int64
	err = s.appendDecided(ctx, want.Pipeline, want.By, func(e *pipeline.Engine, _ time.Time) ([]pipeline.Entry, error) {
		entries, err := decide(e, targetOrAll(want.Pipeline, want.Target))
		if err == nil {
			number = entries[len(entries)-1].Deployment
		}
		return entries, err
	})
	if err != nil {
		return d, err
	}
	return s.ReadDeployment(ctx, Ref{Pipeline: want.Pipeline, Number: number})
}
