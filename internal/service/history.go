package service

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// History lists the deployments that started at a target, newest first, each with what happened to it there. The target
// "" is the pipeline; the name of the pipeline may be left out of others. The error is fault.NotFound if nothing ever
// started at the target and the definition in force does not have it. A Limit of 0 is RecentLimit.
func (s *Service) History(ctx context.Context, q journal.HistoryQuery) ([]journal.Passage, error) {
	if _, err := s.ReadHead(ctx, q.Pipeline); err != nil {
		return nil, err
	}
	q.Target = targetOrAll(q.Pipeline, q.Target)
	if q.Limit <= 0 {
		q.Limit = RecentLimit
	}
	names, err := s.namesOf(ctx, q.Pipeline, q.Target)
	if err != nil {
		return nil, err
	}
	passages := []journal.Passage{}
	for _, name := range names {
		its := q
		its.Target = name
		some, err := s.ledger.History(ctx, its)
		if err != nil {
			return nil, err
		}
		if some, err = s.addArchived(ctx, its, some); err != nil {
			return nil, err
		}
		passages = append(passages, some...)
	}
	slices.SortFunc(passages, func(a, b journal.Passage) int { return cmp.Compare(b.Seq, a.Seq) })
	if len(passages) == 0 {
		return passages, s.checkTarget(ctx, q.Pipeline, q.Target)
	}
	return passages[:min(len(passages), q.Limit)], nil
}

// namesOf returns the present and former names of a target by the definition in force, the present one first.
func (s *Service) namesOf(ctx context.Context, name, target string) (names []string, err error) {
	err = s.withFold(ctx, name, func(f *fold) error {
		names = f.namesOf(target)
		return nil
	})
	return names, err
}

// namesOf returns the present and former names of a target by the definition in force, the present one first.
func (f *fold) namesOf(target string) []string {
	if _, plan := f.engine.Current(); plan != nil {
		return plan.Definition().NamesOf(target)
	}
	return []string{target}
}

// targetOrAll returns the full path of a target; that of the pipeline for "".
func targetOrAll(name, target string) string {
	if target == "" {
		return name
	}
	return FullTarget(name, target)
}

// checkTarget returns fault.NotFound if the definition in force does not have a target.
func (s *Service) checkTarget(ctx context.Context, name, target string) error {
	return s.withFold(ctx, name, func(f *fold) error {
		if _, plan := f.engine.Current(); target != name && plan != nil {
			if _, _, _, ok := plan.Definition().Find(target); !ok {
				return fault.New(fault.NotFound, "target %q not found in pipeline %s", target, name).
					WithHint("waybill pipeline show %s shows its stages; hosts are named STAGE/GROUP/HOST", name)
			}
		}
		return nil
	})
}

// TargetView is the whole log of one target: the pipeline, a stage, a group or a host.
type TargetView struct {
	Target  string     `json:"target"`            // full path
	Current *Reached   `json:"current,omitempty"` // the newest deployment that finished here; left out: none
	Highest *Reached   `json:"highest,omitempty"` // the newest revision that finished here, which a rollback may have undone
	Failed  *Reached   `json:"failed,omitempty"`  // the deployment that failed here last; left out: none
	Runs    *Running   `json:"runs,omitempty"`    // last deployment to a host under another name; left out: Current has it
	Open    []OpenHere `json:"open"`              // active deployments with steps to do here, oldest first
	More    int        `json:"more,omitempty"`    // how many such deployments a list has left out of Open
}

// Reached is a revision at a target. Highest has no deployment and no time.
type Reached struct {
	Deployment int64     `json:"deployment,omitempty"`
	Revision   int64     `json:"revision"`
	Label      string    `json:"label"`
	At         time.Time `json:"at,omitzero"` // time at which it finished or failed
}

// OpenHere is an active deployment with steps to do at a target.
type OpenHere struct {
	Deployment int64                `json:"deployment"`
	Revision   int64                `json:"revision"`
	Label      string               `json:"label"`
	Open       int                  `json:"open"`  // how many steps at the target and below it are not complete
	Steps      []pipeline.StepState `json:"steps"` // the first mostOpenSteps of these, each with its reason
}

// mostOpenSteps bounds the open steps that an OpenHere lists.
const mostOpenSteps = 20

// Target returns the state of a target, what was there, and what is on its way to it. The error is fault.NotFound if
// the definition in force does not have it.
func (s *Service) Target(ctx context.Context, name, target string) (TargetView, error) {
	if _, err := s.ReadHead(ctx, name); err != nil {
		return TargetView{}, err
	}
	target = targetOrAll(name, target)
	views := []TargetView{{Target: target, Open: []OpenHere{}}}
	if err := s.checkTarget(ctx, name, target); err != nil {
		return views[0], err
	}
	now, err := s.ledger.Now(ctx)
	if err != nil {
		return views[0], err
	}
	err = s.withFold(ctx, name, func(f *fold) error {
		if err := s.fillReached(ctx, f, views); err != nil {
			return err
		}
		views[0].Open, err = openAt(ctx, f.engine, target, now)
		return err
	})
	return views[0], err
}

// reachedBefore returns what a deployment brought to a target, from the entries of that deployment.
func (s *Service) reachedBefore(ctx context.Context, f *fold, target string, number int64) (*Reached, error) {
	d := s.stateOf(ctx, f, number)
	at := time.Time{}
	for _, name := range f.namesOf(target) {
		entries, err := s.entries(ctx, journal.EntryQuery{Pipeline: f.pipeline, Deployment: number, Target: name, Class: pipeline.Fact})
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.Target == name {
				at = e.At // the last fact of a target is its finish
			}
		}
	}
	return s.reached(ctx, f, number, d.Revision, at), nil
}

// reached returns a revision at a target; nil for revision 0.
func (s *Service) reached(ctx context.Context, f *fold, deployment, revision int64, at time.Time) *Reached {
	if revision == 0 {
		return nil
	}
	return &Reached{Deployment: deployment, Revision: revision, Label: s.revisionLabel(ctx, f, revision), At: at}
}

// openAt lists the active deployments with steps to do at a target or below it.
func openAt(ctx context.Context, e *pipeline.Engine, target string, now time.Time) ([]OpenHere, error) {
	found := []OpenHere{}
	for _, d := range e.Deployments(true) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		open := e.Open(d.Deployment, []string{target}, mostOpenSteps)
		for i, steps := range e.ExplainOpen(d.Deployment, open, now) {
			found = append(found, OpenHere{Deployment: d.Deployment, Revision: d.Revision, Label: d.Label, Open: open[i].Steps, Steps: steps})
		}
	}
	return found, nil
}
