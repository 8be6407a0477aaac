package service

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/promotions"
)

// PipelineView is the current state of a pipeline.
type PipelineView struct {
	Name        string                        `json:"name"`
	Version     int                           `json:"version"` // definition in force; 0: none yet
	Seq         int64                         `json:"seq"`     // number of the last entry in this view
	Definition  *pipeline.Definition          `json:"definition,omitempty"`
	Stages      []StageView                   `json:"stages"`
	Active      []pipeline.DeploymentState    `json:"active"`           // oldest first
	Freeze      *admission.Freeze             `json:"freeze,omitempty"` // left out: it is not frozen
	Last        *journal.Deployment           `json:"last,omitempty"`
	Resources   []journal.Resource            `json:"resources"`
	Hosts       []HostView                    `json:"hosts"` // in definition order
	Drift       []Drift                       `json:"drift"`
	Left        []LeftService                 `json:"left"`        // what runs where the definition no longer has it; of one pipeline
	Revisions   []pipeline.RegisteredRevision `json:"revisions"`   // newest first, at most RecentLimit
	Deployments []journal.Deployment          `json:"deployments"` // newest first, at most RecentLimit
	// Promotion is set for a pipeline of Kubernetes. Its environments are also Stages, and its runs Deployments.
	Promotion *promotions.View `json:"promotion,omitempty"`
}

// RecentLimit bounds the revisions and deployments that a PipelineView names.
const RecentLimit = 50

// StageView is a stage with the deployments that passed it or are inside it.
type StageView struct {
	Name    string             `json:"name"`
	Kind    pipeline.StageKind `json:"kind"`
	After   []string           `json:"after"`             // direct predecessors; none: the stage begins at once
	Hosts   int                `json:"hosts"`             // 0 for a build
	Current *Standing          `json:"current,omitempty"` // newest deployment that finished the stage
	Inside  []Standing         `json:"inside"`            // started and not finished, oldest first; a failed one until a newer one passed
	// Conditions are its windows, approval, gates and bake, in the order in which a deployment meets
	// them.
	Conditions []Condition `json:"conditions"`
	// Environment is the last known state of the environment of a stage in a waybill.yaml; left out: it has none, or none is known.
	Environment *promotions.EnvironmentView `json:"environment,omitempty"`
}

// Standing is a deployment at a stage.
type Standing struct {
	Deployment int64           `json:"deployment"`
	Revision   int64           `json:"revision"`
	Label      string          `json:"label"`
	Status     pipeline.Status `json:"status"`
	At         time.Time       `json:"at,omitzero"` // time at which it finished the stage, or started it if it is inside
	HostsDone  int             `json:"hostsDone"`   // how many of Hosts are finished
	Hosts      int             `json:"hosts"`
	FailedHere bool            `json:"failedHere,omitempty"` // the deployment failed in this stage and not only elsewhere
}

// Pipelines lists every pipeline by name, without Definition, Revisions and Deployments.
func (s *Service) Pipelines(ctx context.Context) ([]PipelineView, error) {
	heads, err := s.ledger.Heads(ctx)
	if err != nil {
		return nil, fmt.Errorf("list pipelines: %w", err)
	}
	views := make([]PipelineView, 0, len(heads))
	for _, head := range heads {
		view, err := s.pipelineView(ctx, head.Pipeline, 1)
		if err != nil {
			return nil, err
		}
		view.Definition, view.Revisions, view.Deployments = nil, nil, nil
		views = append(views, view)
	}
	promoted, err := s.promotionPipelines(ctx)
	if err != nil || len(promoted) == 0 {
		return views, err
	}
	views = append(views, promoted...)
	slices.SortFunc(views, func(a, b PipelineView) int { return strings.Compare(a.Name, b.Name) })
	return views, nil
}

// Pipeline returns one pipeline with all parts of its view.
func (s *Service) Pipeline(ctx context.Context, name string) (PipelineView, error) {
	if OfKubernetes(name) {
		return s.promotionPipeline(ctx, name)
	}
	view, err := s.pipelineView(ctx, name, RecentLimit)
	if err != nil {
		return view, err
	}
	if view.Definition != nil {
		s.inspectServices(ctx, view.Hosts)
		for i := range view.Hosts {
			view.Hosts[i].Service = view.Hosts[i].state()
		}
		if err := s.fillDrift(ctx, &view); err != nil {
			return view, err
		}
		left, err := s.LeftServices(ctx, name)
		if err != nil {
			return view, err
		}
		s.lookAtLeft(ctx, left)
		view.Left = append(view.Left, left...)
	}
	view.Revisions, err = s.ledger.Revisions(ctx, name, RecentLimit)
	return view, err
}

// Versions lists the definition versions, oldest first.
func (s *Service) Versions(ctx context.Context, name string) ([]journal.Version, error) {
	if _, err := s.ReadHead(ctx, name); err != nil {
		return nil, err
	}
	return s.ledger.Versions(ctx, name)
}

// Version returns one definition version; 0 is the one in force.
func (s *Service) Version(ctx context.Context, name string, version int) (journal.Version, error) {
	if _, err := s.ReadHead(ctx, name); err != nil {
		return journal.Version{}, err
	}
	return s.ledger.Version(ctx, name, version)
}

// pipelineView returns the view of a pipeline with at most recent deployments, the newest.
func (s *Service) pipelineView(ctx context.Context, name string, recent int) (PipelineView, error) {
	view := PipelineView{Name: name, Stages: []StageView{}, Active: []pipeline.DeploymentState{}, Hosts: []HostView{},
		Drift: []Drift{}, Left: []LeftService{}}
	var err error
	if view.Deployments, err = s.ledger.Deployments(ctx, journal.DeploymentQuery{Pipeline: name, Limit: recent}); err != nil {
		return view, fmt.Errorf("list deployments of %s: %w", name, err)
	}
	if len(view.Deployments) > 0 {
		last := view.Deployments[0]
		view.Last = &last
	}
	if view.Resources, err = s.ledger.Resources(ctx, journal.ResourceQuery{Pipeline: name}); err != nil {
		return view, fmt.Errorf("list what runs where for %s: %w", name, err)
	}
	now, err := s.ledger.Now(ctx)
	if err != nil {
		return view, err
	}
	err = s.withFold(ctx, name, func(f *fold) error {
		view.Freeze = f.engine.Frozen(now)
		s.fillPipeline(ctx, f, now, &view)
		return nil
	})
	if err != nil || !slices.ContainsFunc(view.Stages, func(v StageView) bool { return v.Kind == pipeline.EnvironmentStage }) {
		return view, err
	}
	environments, err := s.environmentsOf(ctx, name)
	for i := range view.Stages {
		if env, known := environments[view.Stages[i].Name]; known {
			view.Stages[i].Environment, view.Stages[i].Hosts = &env, len(env.Targets)
		}
	}
	return view, err
}

func (s *Service) fillPipeline(ctx context.Context, f *fold, now time.Time, view *PipelineView) {
	version, plan := f.engine.Current()
	view.Version, view.Seq = version, f.engine.Seq()
	view.Active = append(view.Active, f.engine.Deployments(true)...)
	if plan == nil {
		return
	}
	view.Definition = plan.Definition()
	for i, stage := range view.Definition.Stages {
		its := s.stageView(ctx, f, stage)
		its.Conditions = f.conditionsOf(i, its, now)
		view.Stages = append(view.Stages, its)
	}
	view.Hosts = s.hostViews(ctx, f, view.Definition)
	view.Drift = append(view.Drift, s.drifts(f, view)...)
}

// stageView returns a stage with the newest deployment that passed it and those inside.
func (s *Service) stageView(ctx context.Context, f *fold, stage pipeline.Stage) StageView {
	view := StageView{Name: stage.Name, Kind: stage.Kind, After: NonNil(stage.After), Inside: []Standing{}}
	for _, group := range stage.Groups {
		view.Hosts += len(group.Hosts)
	}
	for number, mark := range f.marks.stages[stage.Name] {
		if mark.finished.IsZero() || (view.Current != nil && f.engine.Outranks(view.Current.Deployment, number)) {
			continue
		}
		current := s.standingOf(ctx, f, number, mark.finished, mark.hosts, view.Hosts)
		view.Current = &current
	}
	for number, mark := range f.marks.stages[stage.Name] {
		at := s.standingOf(ctx, f, number, mark.started, mark.hosts, view.Hosts)
		at.FailedHere = f.marks.failedAt(number, pipeline.Path(f.pipeline, stage.Name))
		if isInside(f.engine, at, mark, view.Current) {
			view.Inside = append(view.Inside, at)
		}
	}
	slices.SortFunc(view.Inside, func(a, b Standing) int { return int(a.Deployment - b.Deployment) })
	return view
}

// isInside reports whether a deployment is in a stage: on its way, or failed there with nothing newer past it.
func isInside(e *pipeline.Engine, at Standing, mark *stageMark, current *Standing) bool {
	if !mark.finished.IsZero() || mark.started.IsZero() {
		return false
	}
	passed := current != nil && e.Outranks(current.Deployment, at.Deployment)
	return at.Status == pipeline.StatusActive || (at.Status == pipeline.StatusFailed && !passed)
}

func (s *Service) standingOf(ctx context.Context, f *fold, number int64, at time.Time, done, hosts int) Standing {
	state, _ := f.engine.Deployment(number)
	return Standing{
		Deployment: number, Revision: state.Revision, Label: s.revisionLabel(ctx, f, state.Revision),
		Status: state.Status, At: at, HostsDone: min(done, hosts), Hosts: hosts,
	}
}
