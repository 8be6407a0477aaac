package server

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// TargetRequest asks for a deployment that the engine makes up for a target: a rollback or a catch-up.
type TargetRequest struct {
	Pipeline string `json:"pipeline"`
	Target   string `json:"target,omitempty"` // a stage, group or host, with or without the pipeline's name; "": the pipeline
	Reason   string `json:"reason,omitempty"`
	By       string `json:"by,omitempty"`
}

// Rollback creates a deployment that brings back the newest older revision that finished the stages of the target, and rejects
// the revision that it undoes. The error is fault.Refused if there is nothing to undo, or no such revision.
func (s *Service) Rollback(ctx context.Context, want TargetRequest) (journal.Deployment, error) {
	return s.createDecided(ctx, want, func(e *pipeline.Engine, target string) ([]pipeline.Entry, error) {
		return e.Rollback(pipeline.Rollback{Target: target, By: want.By, Reason: want.Reason})
	})
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
