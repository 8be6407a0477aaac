package service

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
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

// Drift is a host that does not run the current release of its stage.
type Drift struct {
	Target string `json:"target"`
	Has    string `json:"has,omitempty"` // label of the release on the host; "": none
	Wants  string `json:"wants"`         // label of the stage's current revision
	Reason string `json:"reason"`        // such as "has no release yet"

	Lost    bool `json:"lost,omitempty"`    // the host does not have the release in the log
	CatchUp bool `json:"catchUp,omitempty"` // a catch-up of the host brings it what it wants

	Rejected bool `json:"rejected,omitempty"` // a catch-up would, once the revision is accepted again
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
	return views, nil
}

// Pipeline returns one pipeline with all parts of its view.
func (s *Service) Pipeline(ctx context.Context, name string) (PipelineView, error) {
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
	return view, s.withFold(ctx, name, func(f *fold) error {
		view.Freeze = f.engine.Frozen(now)
		s.fillPipeline(ctx, f, now, &view)
		return nil
	})
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

// drifts returns the hosts that do not run the current release of their stage, except those that a deployment is changing.
func (s *Service) drifts(f *fold, view *PipelineView) []Drift {
	current := map[string]*Standing{} // by stage
	for _, stage := range view.Stages {
		current[stage.Name] = stage.Current
	}
	var found []Drift
	for _, host := range view.Hosts {
		wanted := current[host.place.Stage.Name]
		if wanted == nil {
			continue
		}
		if d, drifted := driftOf(f, &host, *wanted); drifted {
			d.Target = host.Target
			found = append(found, d)
		}
	}
	return found
}

// lostReleases returns the hosts whose release is not the one in the log: they were changed by hand, lost their
// files, or the log was restored. It leaves out stages with an active deployment, whose hosts may be changing, and
// ssh hosts that were not looked at.
func (s *Service) lostReleases(view *PipelineView) (found []Drift) {
	changing, known := map[string]bool{}, map[string]bool{}
	for _, stage := range view.Stages {
		changing[stage.Name] = slices.ContainsFunc(stage.Inside, func(in Standing) bool { return in.Status == pipeline.StatusActive })
	}
	for _, d := range view.Drift {
		known[d.Target] = true
	}
	for i := range view.Hosts {
		host := &view.Hosts[i]
		if host.release == "" || changing[host.place.Stage.Name] || known[host.Target] {
			continue
		}
		d := Drift{Target: host.Target, Wants: host.Runs.Label}
		switch release, here, err := s.releaseOn(host); {
		case err != nil:
			d.Reason = "cannot be read: " + err.Error()
		case !here || release == host.release:
			continue
		case release == "":
			d.Lost, d.Reason = true, fmt.Sprintf("has lost %s of #%d", host.Runs.Label, host.Runs.Deployment)
		default:
			d.Lost, d.Has, d.Reason = true, release, fmt.Sprintf("has release %s, not %s of #%d", release, host.Runs.Label, host.Runs.Deployment)
		}
		found = append(found, d)
	}
	return found
}

// releaseOn returns the release that a host has switched to, "" for none. An ssh host answers when it is looked at;
// known is false if it did not, or a switch is in progress there.
func (s *Service) releaseOn(host *HostView) (release string, known bool, err error) {
	if host.place.Host.Remote() {
		state := host.seen.state
		return state.Release, host.seen.known && host.seen.err == nil && !state.Busy && !state.Unfinished, nil
	}
	if s.Current == nil {
		return "", false, nil
	}
	release, known, err = s.Current(*host.place.Host, host.service.Name)
	if err == nil && !known && host.alone {
		return "", true, nil // the folder is of this home, and was removed
	}
	return release, known, err
}

// driftOf compares the release on a host with the current one of its stage.
func driftOf(f *fold, host *HostView, current Standing) (Drift, bool) {
	d, runs := Drift{Wants: current.Label}, host.Runs
	if runs == nil && host.taken != nil {
		d.Lost, d.Reason = true, "was taken over, and has no release of this log yet"
		return d, true
	}
	if runs == nil {
		d.Reason = fmt.Sprintf("has no release yet: it was added after #%d", current.Deployment)
		return d, true
	}
	d.Has = runs.Label
	doubt := ""
	if runs.Doubt != "" {
		doubt = ", " + runs.Doubt
	}
	status := pipeline.Status(runs.Status)
	newer := f.engine.Outranks(runs.Deployment, current.Deployment)
	switch {
	case runs.Deployment == current.Deployment:
		return d, false
	case runs.Label == current.Label && status == pipeline.StatusFinished:
		return d, false // by a catch-up, or left alone by a rollback
	case newer && status == pipeline.StatusActive:
		return d, false // on its way
	case newer:
		d.Reason = fmt.Sprintf("runs %s of #%d%s, which %s", runs.Label, runs.Deployment, doubt, endedWords(status))
	default:
		d.Reason = fmt.Sprintf("runs %s of #%d%s, not of #%d", runs.Label, runs.Deployment, doubt, current.Deployment)
	}
	return d, true
}

// endedWords returns how a deployment ended, as the end of a sentence.
func endedWords(status pipeline.Status) string {
	switch status {
	case pipeline.StatusCanceled, pipeline.StatusSuperseded:
		return "was " + string(status)
	case pipeline.StatusFailed:
		return "has failed"
	}
	return "has " + string(status)
}
