package service

import (
	"context"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// RollbackPreview is the effect of a rollback made now. A catch-up undoes nothing, and has only Target, Revision and
// Hosts.
type RollbackPreview struct {
	Target   string          `json:"target"`            // full path
	Revision string          `json:"revision"`          // label of the revision that hosts get
	Undoes   int64           `json:"undoes,omitempty"`  // the deployment that is undone
	Undone   string          `json:"undone,omitempty"`  // label of its revision
	Rejects  bool            `json:"rejects,omitempty"` // the revision is rejected; else it was rejected before
	Cancels  bool            `json:"cancels,omitempty"` // the deployment is active, and is canceled
	Hosts    []ReturningHost `json:"hosts"`             // in definition order
	Holds    []int64         `json:"holds,omitempty"`   // active deployments that are held until they are resumed, oldest first
}

// ReturningHost is a host that a rollback or a catch-up changes.
type ReturningHost struct {
	Target string   `json:"target"`
	Runs   *Running `json:"runs,omitempty"` // by the log; left out: nothing that it knows of
	Lost   bool     `json:"lost,omitempty"` // the host does not have that release
}

// PreviewRollback returns what Rollback would do, or the error with which it would refuse.
func (s *Service) PreviewRollback(ctx context.Context, want TargetRequest) (RollbackPreview, error) {
	preview := RollbackPreview{Target: targetOrAll(want.Pipeline, want.Target)}
	if OfKubernetes(want.Pipeline) {
		d, err := s.rollBackEnvironment(ctx, want, true)
		preview.Revision = d.Label
		return preview, err
	}
	active, err := s.Deployments(ctx, journal.DeploymentQuery{Pipeline: want.Pipeline, Status: pipeline.StatusActive})
	if err != nil {
		return preview, err
	}
	err = s.withFold(ctx, want.Pipeline, func(f *fold) error {
		rows, err := f.engine.Rollback(pipeline.Rollback{Target: preview.Target})
		if err != nil {
			return err
		}
		if err := want.checkSeen(rows[len(rows)-1]); err != nil {
			return err
		}
		return s.readRollback(ctx, f, rows, &preview)
	})
	for i := len(active) - 1; i >= 0; i-- {
		if d := active[i]; d.Number != preview.Undoes && d.Kind != journal.Rollback && d.Kind != journal.CatchUp {
			preview.Holds = append(preview.Holds, d.Number)
		}
	}
	return preview, err
}

// readRollback fills in the facts in the rows of a rollback or a catch-up.
func (s *Service) readRollback(ctx context.Context, f *fold, rows []pipeline.Entry, into *RollbackPreview) error {
	detail, err := undoingOf(rows[len(rows)-1])
	if err != nil {
		return err
	}
	undone, _ := f.engine.Deployment(detail.Undoes)
	into.Revision, into.Undoes, into.Undone = detail.Label, detail.Undoes, undone.Label
	for _, row := range rows {
		into.Rejects = into.Rejects || row.Event == pipeline.RevisionRejected
		into.Cancels = into.Cancels || row.Event == pipeline.PipelineCanceled
	}
	_, plan := f.engine.Current()
	runs := map[string]*Running{}
	for _, view := range s.hostViews(ctx, f, plan.Definition()) {
		runs[view.Target] = view.Runs
	}
	for _, target := range detail.Hosts {
		into.Hosts = append(into.Hosts, ReturningHost{Target: target, Runs: runs[target], Lost: slices.Contains(detail.Lost, target)})
	}
	return nil
}

// DeployPreview is the effect of deploying a registered revision now.
type DeployPreview struct {
	Revision string             `json:"revision"` // label
	Version  int                `json:"version"`  // the definition in force
	Stages   []ReplacedRevision `json:"stages"`   // without those that only build
}

// ReplacedRevision is the revision that a stage has before a deployment.
type ReplacedRevision struct {
	Stage   string    `json:"stage"`
	Current *Standing `json:"current,omitempty"` // nil: nothing has finished the stage
	Newer   bool      `json:"newer,omitempty"`   // Current was registered after the revision that would replace it
	Waits   bool      `json:"waits,omitempty"`   // whether it waits for approval or a window, each time
}

// PreviewDeploy returns what Deploy would do, or the error with which it would refuse.
func (s *Service) PreviewDeploy(ctx context.Context, want NewDeployment) (DeployPreview, error) {
	revision, err := s.Revision(ctx, want.Pipeline, want.Revision)
	if err != nil {
		return DeployPreview{}, err
	}
	if revision.State == journal.RevisionRejected {
		return DeployPreview{}, fault.New(fault.Refused, "revision %s is rejected", revision.Label).
			WithHint("waybill revision accept %s %s", want.Pipeline, revision.Label)
	}
	view, err := s.pipelineView(ctx, want.Pipeline, 1)
	if err != nil {
		return DeployPreview{}, err
	}
	if view.Definition == nil {
		return DeployPreview{}, fault.New(fault.NotFound, "pipeline %q has no definition yet", want.Pipeline)
	}
	target := targetOrAll(want.Pipeline, want.Target)
	if err := checkPart(view.Definition, revision, target); err != nil {
		return DeployPreview{}, err
	}
	if err := want.checkUntil(view); err != nil {
		return DeployPreview{}, err
	}
	preview := DeployPreview{Revision: revision.Label, Version: view.Version, Stages: []ReplacedRevision{}}
	for i, stage := range view.Stages {
		its := view.Definition.Stages[i]
		at := pipeline.Path(want.Pipeline, stage.Name)
		if its.Kind == pipeline.BuildStage || !isWithin(at, target) && !isWithin(target, at) {
			continue
		}
		preview.Stages = append(preview.Stages, ReplacedRevision{Stage: stage.Name, Current: stage.Current,
			Newer: stage.Current != nil && stage.Current.Revision > revision.Seq, Waits: its.Approval != nil || len(its.Windows) > 0})
	}
	return preview, nil
}

// checkUntil returns fault.Invalid if the deployment has a target as well, or the definition in force lacks the stage.
func (want NewDeployment) checkUntil(view PipelineView) error {
	switch known := func(s pipeline.Stage) bool { return s.Name == want.Until }; {
	case want.Until == "":
		return nil
	case want.Target != "" && FullTarget(want.Pipeline, want.Target) != want.Pipeline:
		return errTargetAndUntil
	case !slices.ContainsFunc(view.Definition.Stages, known):
		return fault.New(fault.Invalid, "stage %q not found in definition %d of %s", want.Until, view.Version, want.Pipeline)
	}
	return nil
}

// checkPart returns the error with which a deployment of a revision to a target is refused. The
// whole pipeline is none.
func checkPart(d *pipeline.Definition, revision pipeline.RegisteredRevision, target string) error {
	if target == d.Pipeline {
		return nil
	}
	if err := pipeline.CheckPart(d, target); err != nil {
		return err
	}
	if revision.State == journal.RevisionOpen {
		return fault.New(fault.Refused, "revision %s does not have all its artifacts yet", revision.Label).
			WithHint("waybill revision show %s %s", d.Pipeline, revision.Label)
	}
	return nil
}

// CommandPreview is the effect of a command on a deployment if it were given now.
type CommandPreview struct {
	Kind   string               `json:"kind"`            // as of Command
	Target string               `json:"target"`          // full path
	Event  string               `json:"event,omitempty"` // "": all steps of the target
	Steps  []pipeline.StepState `json:"steps,omitempty"` // in order. skip: that take work and would be left out; retry: that would run again
	Hosts  int                  `json:"hosts,omitempty"` // number of hosts with such steps
}

// PreviewCommand returns what Command would do, or the error with which it would refuse.
func (s *Service) PreviewCommand(ctx context.Context, ref Ref, c Command) (CommandPreview, error) {
	if OfKubernetes(ref.Pipeline) {
		return s.previewRun(ctx, ref, c)
	}
	intent, err := c.intent(ref)
	preview := CommandPreview{Kind: c.Kind, Target: intent.Target}
	if err != nil {
		return preview, err
	}
	if err := s.checkLive(ctx, ref); err != nil {
		return preview, err
	}
	now, err := s.ledger.Now(ctx)
	if err != nil {
		return preview, err
	}
	return preview, s.withFold(ctx, ref.Pipeline, func(f *fold) error {
		rows, err := f.engine.Command(intent)
		if err != nil {
			return err
		}
		if len(rows) > 0 {
			preview.Event = detailOf(rows[0]).Event // a short form of it was given
		}
		switch c.Kind {
		case "skip":
			preview.Steps, preview.Hosts = skipped(f.engine.Explain(ref.Number, now), preview.Target, preview.Event)
		case "retry":
			preview.Steps, preview.Hosts = reopened(f.engine.Explain(ref.Number, now), preview.Target, preview.Event)
		}
		return nil
	})
}

// reopened returns the failed steps that a retry would run again, and how many hosts have one.
func reopened(steps []pipeline.StepState, target, event string) ([]pipeline.StepState, int) {
	failed := slices.DeleteFunc(slices.Clone(steps), func(s pipeline.StepState) bool { return s.State != pipeline.StateFailed })
	return skipped(failed, target, event)
}

// skipped returns the steps that a skip would leave out, and how many hosts have one.
func skipped(steps []pipeline.StepState, target, event string) (list []pipeline.StepState, hosts int) {
	counted := map[string]bool{}
	for _, step := range steps {
		if !step.Work || !isWithin(step.Target, target) || event != "" && step.Event != event {
			continue
		}
		switch step.State {
		case pipeline.StateComplete, pipeline.StateExcluded, pipeline.StateElided:
			continue
		}
		list = append(list, step)
		if strings.HasPrefix(step.Event, "host-") {
			counted[step.Target] = true
		}
	}
	return list, len(counted)
}
