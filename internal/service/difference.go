package service

import (
	"context"
	"slices"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// DifferenceView lists the revisions between two points of a pipeline.
type DifferenceView struct {
	From  DifferencePoint `json:"from"`
	To    DifferencePoint `json:"to"`
	Newer string          `json:"newer,omitempty"` // name of the point with the newer revision; left out: they are the same
	// Revisions are those after the older point, up to the newer one, newest first, at most mostBetween, without artifacts.
	Revisions []pipeline.RegisteredRevision `json:"revisions"`
	More      bool                          `json:"more,omitempty"` // there are further ones, older than the last of Revisions
}

// DifferencePoint is a stage with its current revision, or a revision.
type DifferencePoint struct {
	Name       string `json:"name"`                 // as it was requested: a stage or a label
	Deployment int64  `json:"deployment,omitempty"` // the newest that finished the stage; left out for a revision
	Revision   int64  `json:"revision"`
	Label      string `json:"label"` // label of the revision
}

// mostBetween bounds the revisions that a DifferenceView lists.
const mostBetween = 1000

// Difference compares the current revisions of two points. Each is the name of a stage of the definition in force, or
// else the label of a revision. The error is fault.NotFound if it is neither, and fault.Refused if no deployment has
// finished the stage.
func (s *Service) Difference(ctx context.Context, name, from, to string) (DifferenceView, error) {
	view := DifferenceView{Revisions: []pipeline.RegisteredRevision{}}
	_, err := s.ReadHead(ctx, name)
	if err != nil {
		return view, err
	}
	if view.From, err = s.differencePoint(ctx, name, from); err != nil {
		return view, err
	}
	if view.To, err = s.differencePoint(ctx, name, to); err != nil {
		return view, err
	}
	older, newer := view.From, view.To
	switch {
	case older.Revision == newer.Revision:
		return view, nil
	case older.Revision > newer.Revision:
		older, newer = newer, older
	}
	view.Newer = newer.Name
	some, err := s.ledger.RevisionsBetween(ctx, name, older.Revision, newer.Revision+1, mostBetween+1)
	if err != nil {
		return view, err
	}
	view.More = len(some) > mostBetween
	view.Revisions = NonNil(some[:min(len(some), mostBetween)])
	return view, nil
}

// differencePoint returns the revision that a stage has, or that has a label.
func (s *Service) differencePoint(ctx context.Context, name, point string) (DifferencePoint, error) {
	var stage *pipeline.Stage
	var current *Standing
	err := s.withFold(ctx, name, func(f *fold) error {
		if _, plan := f.engine.Current(); plan != nil {
			stages := plan.Definition().Stages
			if i := slices.IndexFunc(stages, func(s pipeline.Stage) bool { return s.Name == point }); i >= 0 {
				stage = &stages[i]
			}
		}
		if stage != nil {
			current = s.stageView(ctx, f, *stage).Current
		}
		return nil
	})
	if err != nil {
		return DifferencePoint{}, err
	}
	if stage == nil {
		r, err := s.ledger.Revision(ctx, name, point, 0)
		if fault.Is(err, fault.NotFound) {
			return DifferencePoint{}, fault.New(fault.NotFound, "%q is neither a stage nor a revision of %s", point, name).
				WithHint("waybill revision list %s; waybill pipeline show %s", name, name)
		}
		return DifferencePoint{Name: point, Revision: r.Seq, Label: r.Label}, err
	}
	if current == nil {
		return DifferencePoint{}, fault.New(fault.Refused, "no deployment has finished stage %s of %s", point, name).
			WithHint("waybill pipeline show %s", name)
	}
	return DifferencePoint{Name: point, Deployment: current.Deployment, Revision: current.Revision, Label: current.Label}, nil
}
