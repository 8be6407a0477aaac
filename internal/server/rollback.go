package server

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// TargetRequest asks for a deployment that the engine makes up for a target: a rollback or a catch-up.
type TargetRequest struct {
	Pipeline string `json:"pipeline"`
	Target   string `json:"target,omitempty"` // a stage, group or host, with or without the pipeline's name; "": the pipeline
	Reason   string `json:"reason,omitempty"`
	By       string `json:"by,omitempty"`
	// Undoes and Revision are what a preview has shown. A rollback that would undo another deployment, or bring back another
	// revision, is refused. 0 and "": whatever they are.
	Undoes   int64  `json:"undoes,omitempty"`
	Revision string `json:"revision,omitempty"`
}

// Rollback creates a deployment that brings back the newest older revision that finished the stages of the target, and rejects
// the revision that it undoes. The error is fault.Refused if there is nothing to undo, no such revision, or not what want expects.
func (s *Service) Rollback(ctx context.Context, want TargetRequest) (journal.Deployment, error) {
	return s.createDecided(ctx, want, func(e *pipeline.Engine, target string) ([]pipeline.Entry, error) {
		rows, err := e.Rollback(pipeline.Rollback{Target: target, By: want.By, Reason: want.Reason})
		if err != nil {
			return nil, err
		}
		return rows, want.checkExpected(rows[len(rows)-1])
	})
}

// checkExpected refuses the creation of a rollback that is not the expected one. It is called in the transaction that appends it.
func (want TargetRequest) checkExpected(created pipeline.Entry) error {
	var would struct {
		Label  string
		Undoes int64
	}
	if err := json.Unmarshal(created.Detail, &would); err != nil {
		return fmt.Errorf("read the rollback of %s: %w", want.Pipeline, err)
	}
	if want.Undoes != 0 && want.Undoes != would.Undoes || want.Revision != "" && want.Revision != would.Label {
		return fault.New(fault.Refused, "the rollback would now undo %s and bring back %s", Ref{want.Pipeline, would.Undoes}, would.Label).
			WithHint("look at what it does, and confirm it again")
	}
	return nil
}

// CatchUp creates a deployment that brings the current revision of a group to the hosts of the target that lack it, since they
// joined late or their failure was tolerated. The error is fault.Refused if it has none of these, or if they lack different
// revisions.
func (s *Service) CatchUp(ctx context.Context, want TargetRequest) (journal.Deployment, error) {
	return s.createDecided(ctx, want, func(e *pipeline.Engine, target string) ([]pipeline.Entry, error) {
		return e.CatchUp(pipeline.CatchUp{Target: target, By: want.By, Reason: want.Reason})
	})
}

// createDecided appends the rows of a deployment that the engine decides on, of which the last creates it.
func (s *Service) createDecided(ctx context.Context, want TargetRequest, decide func(e *pipeline.Engine, target string) ([]pipeline.Entry, error)) (d journal.Deployment, err error) {
	if _, err := s.readHead(ctx, want.Pipeline); err != nil {
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
	return s.readDeployment(ctx, Ref{Pipeline: want.Pipeline, Number: number})
}
