package service

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// TargetQuery selects targets of the definition in force, in the order of their paths.
type TargetQuery struct {
	Pipeline string
	Target   string // this target and those below it; "": the pipeline, so all
	After    string // keyset: only those behind this one; "": all
	Limit    int    // 0: RecentLimit; at most MostTargets
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

// Bounds of a list of targets.
const (
	MostTargets   = 1000 // targets of a page
	mostOpenSteps = 20   // open steps that an OpenHere lists
	mostOpenLists = 20   // active deployments that a target of a list names
)

// Targets returns the state of each target, what was there, and what is on its way to it: the questions of Target,
// for the pipeline, its stages, groups and hosts. Of each deployment on its way it has the first open step only.
// After may name a target that the definition no longer has. The error is fault.NotFound if the definition does not
// have the query's Target.
func (s *Service) Targets(ctx context.Context, q TargetQuery) ([]TargetView, error) {
	if q.Limit < 0 || q.Limit > MostTargets {
		return nil, fault.New(fault.Invalid, "limit: %d is not between 0 and %d", q.Limit, MostTargets)
	}
	if _, err := s.ReadHead(ctx, q.Pipeline); err != nil {
		return nil, err
	}
	q.Target, q.Limit = targetOrAll(q.Pipeline, q.Target), cmp.Or(q.Limit, RecentLimit)
	if q.After != "" {
		q.After = FullTarget(q.Pipeline, q.After)
	}
	if err := s.checkTarget(ctx, q.Pipeline, q.Target); err != nil {
		return nil, err
	}
	now, err := s.ledger.Now(ctx)
	if err != nil {
		return nil, err
	}
	views := []TargetView{}
	err = s.withFold(ctx, q.Pipeline, func(f *fold) error {
		for _, target := range f.targetsOf(q) {
			views = append(views, TargetView{Target: target, Open: []OpenHere{}})
		}
		if err := s.fillReached(ctx, f, views); err != nil {
			return err
		}
		return fillOpen(ctx, f.engine, views, now)
	})
	return views, err
}

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

// targetPaths are the paths of a definition's targets, in order. They are kept because a fleet has many, and each page needs
// them.
type targetPaths struct {
	plan *pipeline.Graph
	all  []string
}

// targetsOf returns the page of targets that a query selects.
func (f *fold) targetsOf(q TargetQuery) []string {
	_, plan := f.engine.Current()
	if plan == nil {
		return nil
	}
	if f.targets.plan != plan {
		f.targets = targetPaths{plan, pathsOf(plan.Definition())}
	}
	from, found := slices.BinarySearch(f.targets.all, q.After)
	if found {
		from++
	}
	var page []string
	for _, path := range f.targets.all[from:] {
		if len(page) == q.Limit {
			break
		}
		if isWithin(path, q.Target) {
			page = append(page, path)
		}
	}
	return page
}

// pathsOf returns the paths of a definition's targets, in order.
func pathsOf(d *pipeline.Definition) []string {
	paths := []string{d.Pipeline}
	for _, stage := range d.Stages {
		paths = append(paths, pipeline.Path(d.Pipeline, stage.Name))
		for _, group := range stage.Groups {
			paths = append(paths, pipeline.Path(d.Pipeline, stage.Name, group.Name))
		}
	}
	for at := range d.EachHost() {
		paths = append(paths, at.Target)
	}
	slices.Sort(paths)
	return paths
}

// fillReached fills in what has finished and failed at targets. It asks the log for all at once.
func (s *Service) fillReached(ctx context.Context, f *fold, views []TargetView) error {
	targets := make([]string, 0, len(views))
	for i := range views {
		targets = append(targets, f.namesOf(views[i].Target)...)
	}
	standings, err := s.ledger.Standings(ctx, f.pipeline, targets)
	if err != nil {
		return err
	}
	for i := range views {
		for _, name := range f.namesOf(views[i].Target)[1:] {
			standings[views[i].Target] = joinStandings(standings[views[i].Target], standings[name])
		}
	}
	named := []int64{}
	for _, at := range standings {
		named = append(named, at.Current, at.Failed)
	}
	slices.Sort(named)
	made, err := s.ledger.Deployments(ctx, journal.DeploymentQuery{Pipeline: f.pipeline, Numbers: slices.Compact(named)})
	if err != nil {
		return err
	}
	deployments := make(map[int64]journal.Deployment, len(made))
	for _, d := range made {
		deployments[d.Number] = d
		f.labels[d.Revision] = d.Label
	}
	for i := range views {
		if err := s.fillStanding(ctx, f, &views[i], standings[views[i].Target], deployments); err != nil {
			return err
		}
		views[i].Runs = s.runsByOtherName(ctx, f, views[i].Target)
	}
	return nil
}

// joinStandings merges what the log records of a target under two names.
func joinStandings(a, b journal.Standing) journal.Standing {
	if b.Current > a.Current {
		a.Current, a.Revision, a.At = b.Current, b.Revision, b.At
	}
	if b.Failed > a.Failed {
		a.Failed, a.FailedAt = b.Failed, b.FailedAt
	}
	a.Highest = max(a.Highest, b.Highest)
	return a
}

// runsByOtherName returns what was deployed to a host of the definition in force last, if the host had another name then; else
// nil.
func (s *Service) runsByOtherName(ctx context.Context, f *fold, target string) *Running {
	_, plan := f.engine.Current()
	if plan == nil {
		return nil
	}
	at, ok := plan.Definition().Place(target)
	if !ok {
		return nil
	}
	if runs := s.hostView(ctx, f, plan.Definition(), at).Runs; runs != nil && runs.Target != "" {
		return runs
	}
	return nil
}

// fillStanding fills in what has finished and failed at a target. deployments has those that the roll-up names.
func (s *Service) fillStanding(ctx context.Context, f *fold, view *TargetView, at journal.Standing,
	deployments map[int64]journal.Deployment) (err error) {
	view.Current = s.reached(ctx, f, Reached{Deployment: at.Current, Revision: at.Revision, At: at.At})
	view.Highest = s.reached(ctx, f, Reached{Revision: at.Highest})
	view.Failed = s.reached(ctx, f, Reached{Deployment: at.Failed, Revision: deployments[at.Failed].Revision, At: at.FailedAt})
	if kind := deployments[at.Current].Kind; kind != pipeline.KindRollback && kind != pipeline.KindCatchUp {
		return nil
	}
	// The roll-up goes by numbers. A rollback and a catch-up rank below deployments that their numbers are above.
	if current := f.engine.CurrentAt(view.Target); current != 0 && current != at.Current {
		view.Current, err = s.reachedBefore(ctx, f, view.Target, current)
	}
	return err
}

// reached returns r with the label of its revision; nil for revision 0.
func (s *Service) reached(ctx context.Context, f *fold, r Reached) *Reached {
	if r.Revision == 0 {
		return nil
	}
	r.Label = s.revisionLabel(ctx, f, r.Revision)
	return &r
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
	return s.reached(ctx, f, Reached{Deployment: number, Revision: d.Revision, At: at}), nil
}

// fillOpen fills in the active deployments with steps to do at each target or below it. Only steps that are named are explained.
func fillOpen(ctx context.Context, e *pipeline.Engine, views []TargetView, now time.Time) error {
	places, targets := make(map[string]int, len(views)), make([]string, len(views))
	for i := range views {
		targets[i], places[views[i].Target] = views[i].Target, i
	}
	for _, d := range e.Deployments(true) {
		if ctx.Err() != nil { // thousands of deployments on thousands of hosts take seconds, during which others wait for the fold
			return context.Cause(ctx)
		}
		var listed []pipeline.Open
		for _, open := range e.Open(d.Deployment, targets, 1) {
			if view := &views[places[open.Target]]; len(view.Open) < mostOpenLists {
				listed = append(listed, open)
			} else {
				view.More++
			}
		}
		for i, steps := range e.ExplainOpen(d.Deployment, listed, now) {
			view := &views[places[listed[i].Target]]
			view.Open = append(view.Open, OpenHere{Deployment: d.Deployment, Revision: d.Revision, Label: d.Label,
				Open: listed[i].Steps, Steps: steps})
		}
	}
	return nil
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

// MostResources bounds the resources of a page.
const MostResources = 1000

// Resources returns what runs where, in the order of addresses and services. A Limit of 0 is MostResources.
func (s *Service) Resources(ctx context.Context, q journal.ResourceQuery) ([]journal.Resource, error) {
	if q.Limit < 0 || q.Limit > MostResources {
		return nil, fault.New(fault.Invalid, "limit: %d is not between 0 and %d", q.Limit, MostResources)
	}
	q.Limit = cmp.Or(q.Limit, MostResources)
	found, err := s.ledger.Resources(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("list what runs where: %w", err)
	}
	return NonNil(found), nil
}
