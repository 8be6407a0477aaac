package service

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/promotions"
	"github.com/waybill-dev/waybill/internal/queue"
)

// DeploymentView is the current state of a deployment.
type DeploymentView struct {
	journal.Deployment
	State    pipeline.DeploymentState    `json:"state"`
	Snapshot pipeline.RegisteredRevision `json:"revisionDetail"` // the revision with all of its fields
	// OvertakenBy is the newest deployment that has started a host which this failed one has still to do: it cannot be retried.
	OvertakenBy int64             `json:"overtakenBy,omitempty"`
	Seq         int64             `json:"seq"`    // number of the last entry in this view
	Now         time.Time         `json:"now"`    // the ledger's time of this view
	Stages      []StageRun        `json:"stages"` // in definition order
	Failures    []Failure         `json:"failures"`
	Commands    []RecordedCommand `json:"commands"` // oldest first, the newest mostCommands
}

// StageRun is a stage of a deployment.
type StageRun struct {
	Name string             `json:"name"`
	Kind pipeline.StageKind `json:"kind"`
	Run
	Steps  []StepRun  `json:"steps,omitempty"`  // steps of a build; or the gates and the bake of another stage
	Groups []GroupRun `json:"groups,omitempty"` // groups of a host stage
	// Environment is the present state of an environment stage, while it is on the way to the deployment's revision or at it.
	Environment *promotions.EnvironmentView `json:"environment,omitempty"`
}

// GroupRun is a group of hosts in a deployment.
type GroupRun struct {
	Name string `json:"name"`
	Run
	Waves []WaveRun `json:"waves,omitempty"` // in the order in which they run
	Hosts []HostRun `json:"hosts"`
}

// WaveRun is a part of a group's hosts in a deployment; HostRun.Wave has its number.
type WaveRun struct {
	Name string `json:"name"` // such as wave-2
	Run
	Steps []StepRun `json:"steps,omitempty"` // its bake
}

// HostRun is a host in a deployment.
type HostRun struct {
	Name string `json:"name"`
	URL  string `json:"url,omitempty"`  // "": the host is not in the definition in force
	Wave int32  `json:"wave,omitempty"` // number of its wave; 0: its group has none
	// Runs is set if the host still runs the release of this deployment, which ended unfinished.
	Runs *Running `json:"runs,omitempty"`
	Run
	Steps []StepRun `json:"steps"` // the chain, in order
}

// Run is the progress of a stage, group, wave or host of a deployment.
type Run struct {
	Target    string    `json:"target"`
	State     RunState  `json:"state"`
	Reason    string    `json:"reason,omitempty"` // why it waits, is skipped or failed
	Who       string    `json:"who,omitempty"`    // command or party that can change it
	ReadyAt   time.Time `json:"readyAt,omitzero"` // time at which all predecessors were done; zero: not yet
	StartedAt time.Time `json:"startedAt,omitzero"`
	EndedAt   time.Time `json:"endedAt,omitzero"`
}

// RunState is the state of a Run.
type RunState string

// The states of a stage, group, wave or host.
const (
	RunWaiting   RunState = "waiting"
	RunRunning   RunState = "running"
	RunFinished  RunState = "finished"
	RunFailed    RunState = "failed"
	RunTolerated RunState = "tolerated" // failed within maxFailed
	RunSkipped   RunState = "skipped"   // elided or excluded
	RunStopped   RunState = "stopped"   // begun, but its deployment ended or failed elsewhere first
	RunUnreached RunState = "unreached" // not begun when its deployment ended; only a retry may still reach it
)

// StepRun is a step that needs an action, or an artifact's arrival.
type StepRun struct {
	pipeline.StepState
	Name      string                     `json:"name"`               // deploy, build, amd64
	Word      string                     `json:"word"`               // a word for people: deployed, deploying, waits, failed, …
	Action    action.ID                  `json:"action,omitzero"`    // its newest action
	Status    action.Status              `json:"status,omitzero"`    // status of the action
	Attempt   int                        `json:"attempt,omitempty"`  // claims so far
	Spent     int                        `json:"spent,omitempty"`    // attempts that count
	Attempts  int                        `json:"attempts,omitempty"` // how many the policy allows
	RunAt     time.Time                  `json:"runAt,omitzero"`     // while backing off: earliest start of the next attempt
	StartedAt time.Time                  `json:"startedAt,omitzero"`
	EndedAt   time.Time                  `json:"endedAt,omitzero"`
	Error     string                     `json:"error,omitempty"`  // error of the last failed attempt
	Output    string                     `json:"output,omitempty"` // text of its output, for people
	Artifact  *pipeline.RevisionArtifact `json:"artifact,omitempty"`
	Before    bool                       `json:"before,omitempty"`  // a gate before the hosts of its stage
	Earlier   []Try                      `json:"earlier,omitempty"` // its actions before Action, oldest first
}

// Try is an action of a step that did not complete it, so that a retry made another.
type Try struct {
	Action    action.ID     `json:"action"`
	Status    action.Status `json:"status"`
	StartedAt time.Time     `json:"startedAt,omitzero"`
	EndedAt   time.Time     `json:"endedAt,omitzero"`
	Error     string        `json:"error,omitempty"`
}

// Failure is a failed step, the reason, and what to do about it.
type Failure struct {
	Target string    `json:"target"`
	Event  string    `json:"event"`
	Action action.ID `json:"action,omitzero"`
	Why    string    `json:"why"`
	Todo   string    `json:"todo"` // such as: waybill deployment retry greeter#7
}

// Deployment returns one deployment with its stages, groups, hosts and steps.
func (s *Service) Deployment(ctx context.Context, ref Ref) (DeploymentView, error) {
	return s.deploymentView(ctx, ref, true)
}

// Outline returns a deployment without the actions of its steps: no attempts, no durations, no errors of attempts.
func (s *Service) Outline(ctx context.Context, ref Ref) (DeploymentView, error) {
	return s.deploymentView(ctx, ref, false)
}

// deploymentView returns the view of a deployment, with the actions of its steps only if actions is set.
func (s *Service) deploymentView(ctx context.Context, ref Ref, actions bool) (DeploymentView, error) {
	if OfKubernetes(ref.Pipeline) {
		return s.promotionRun(ctx, ref)
	}
	view := DeploymentView{Stages: []StageRun{}, Failures: []Failure{}}
	var err error
	if view.Deployment, err = s.ReadDeployment(ctx, ref); err != nil {
		return view, err
	}
	if view.Snapshot, err = s.ledger.Revision(ctx, ref.Pipeline, "", view.Revision); err != nil {
		return view, err
	}
	if view.Now, err = s.ledger.Now(ctx); err != nil {
		return view, err
	}
	if view.Archive != "" {
		return view, s.fillArchived(ctx, &view)
	}
	b := runBuilder{view: &view}
	// The fold is read before the actions. A step whose action is newer than the fold is at worst shown as not yet claimed.
	err = s.withFold(ctx, ref.Pipeline, func(f *fold) error { return b.readFold(ctx, s, f, ref.Number) })
	if errors.Is(err, errForgotten) { // it was archived just now
		if view.Deployment, err = s.ReadDeployment(ctx, ref); err == nil {
			err = s.fillArchived(ctx, &view)
		}
		return view, err
	}
	if err != nil {
		return view, err
	}
	if actions {
		if b.actions, err = s.stepActions(ctx, ref); err != nil {
			return view, err
		}
	}
	b.buildStages()
	return view, s.addEnvironments(ctx, &view)
}

// Resolve returns the deployment that a text names: greeter#7, or a deployment's id.
func (s *Service) Resolve(ctx context.Context, text string) (Ref, error) {
	id, err := action.ParseID(text)
	if err != nil {
		return ParseRef(text)
	}
	all, err := s.ledger.Deployments(ctx, journal.DeploymentQuery{})
	if err != nil {
		return Ref{}, err
	}
	for _, d := range all {
		if d.ID == id {
			return Ref{d.Pipeline, d.Number}, nil
		}
	}
	return Ref{}, fault.New(fault.NotFound, "deployment %s not found", text)
}

// Steps returns every step of a deployment, breadth-first, each with its state and reason. The error is fault.Refused for an
// archived deployment: its steps are in its log only.
func (s *Service) Steps(ctx context.Context, ref Ref) ([]pipeline.StepState, error) {
	if OfKubernetes(ref.Pipeline) {
		return s.promotionSteps(ctx, ref, "")
	}
	var steps []pipeline.StepState
	if err := s.checkLive(ctx, ref); err != nil {
		return nil, err
	}
	err := s.withFoldAt(ctx, ref.Pipeline, func(f *fold, now time.Time) (err error) {
		if _, ok := f.engine.Deployment(ref.Number); !ok {
			return deploymentNotFound(ref)
		}
		if steps, err = s.explain(ctx, f, ref.Number, now); err != nil {
			return err
		}
		for i, step := range steps {
			if step.State == pipeline.StateClaimed {
				steps[i].Reason = f.marks.reports[ref.Number][stepName{step.Target, step.Event}]
			}
		}
		return nil
	})
	return NonNil(steps), err
}

// Why returns the open steps of a deployment, each with its reason, and when it is expected to begin where that is
// known. A target selects those at it and below it. The error is fault.NotFound for a target that the deployment does
// not have.
func (s *Service) Why(ctx context.Context, ref Ref, target string) ([]pipeline.StepState, error) {
	if OfKubernetes(ref.Pipeline) {
		return s.promotionSteps(ctx, ref, target)
	}
	steps, err := s.Steps(ctx, ref)
	if err != nil {
		return nil, err
	}
	target = strings.TrimSuffix(target, "/")
	open, found := []pipeline.StepState{}, target == ""
	for _, step := range steps {
		if target != "" && !isWithin(step.Target, FullTarget(ref.Pipeline, target)) {
			continue
		}
		found = true
		if step.State != pipeline.StateComplete {
			open = append(open, step)
		}
	}
	if !found {
		return nil, fault.New(fault.NotFound, "%s has no target %q", ref, target).WithHint("waybill deployment show %s lists what is there", ref)
	}
	s.expect(ctx, ref, open)
	return open, s.addPromotionReasons(ctx, ref, open)
}

// ReadDeployment returns a deployment by its number, with hints if the pipeline or the deployment is not found.
func (s *Service) ReadDeployment(ctx context.Context, ref Ref) (journal.Deployment, error) {
	if OfKubernetes(ref.Pipeline) {
		return s.readRun(ctx, ref)
	}
	if _, err := s.ReadHead(ctx, ref.Pipeline); err != nil {
		return journal.Deployment{}, err
	}
	d, err := s.ledger.Deployment(ctx, ref.Pipeline, ref.Number)
	if fault.Is(err, fault.NotFound) {
		return d, deploymentNotFound(ref)
	}
	return d, err
}

func deploymentNotFound(ref Ref) error {
	return fault.New(fault.NotFound, "deployment %s not found", ref).
		WithHint("waybill deployment list %s shows its deployments", ref.Pipeline)
}

// checkLive returns fault.NotFound if a deployment does not exist, and fault.Refused if it is archived: nothing can be done to
// it any more.
func (s *Service) checkLive(ctx context.Context, ref Ref) error {
	d, err := s.ReadDeployment(ctx, ref)
	if err != nil || d.Archive == "" {
		return err
	}
	return fault.New(fault.Refused, "%s is archived: it has ended, and only its log can be read", ref).
		WithHint("waybill log %s prints its log; waybill deployment create %s --revision %s deploys its revision again", ref, d.Pipeline, d.Label)
}

// stepAction is a step's newest action, the error of its last failed attempt, and its earlier
// actions.
type stepAction struct {
	queue.ActionState
	lastError string
	earlier   []Try // newest first
}

// stepActions reads the actions of every step of a deployment.
func (s *Service) stepActions(ctx context.Context, ref Ref) (map[stepName]stepAction, error) {
	states, err := s.ledger.Actions(ctx, queue.ActionQuery{Pipeline: ref.Pipeline, Deployment: ref.Number})
	if err != nil {
		return nil, err
	}
	newest := make(map[stepName]stepAction, len(states))
	for _, state := range states { // newest first
		if state.Step == nil {
			continue
		}
		key := stepName{state.Step.Target, state.Step.Event}
		if last, known := newest[key]; known {
			last.earlier = append(last.earlier, Try{state.ID, state.Thread.Status, state.Thread.StartedAt, state.FinishedAt, state.Error})
			newest[key] = last
			continue
		}
		found := stepAction{ActionState: state, lastError: state.Error}
		if state.Thread.Status.Live() && (state.Thread.Attempt > 1 || state.Thread.Status == action.Backoff) {
			if found.lastError, err = s.lastError(ctx, state.ID); err != nil {
				return nil, err
			}
		}
		newest[key] = found
	}
	return newest, nil
}

// lastError returns the error of the newest event that has one.
func (s *Service) lastError(ctx context.Context, id action.ID) (string, error) {
	events, err := s.ledger.Events(ctx, id)
	if err != nil {
		return "", err
	}
	for _, event := range slices.Backward(events) {
		if event.Error != "" {
			return event.Error, nil
		}
	}
	return "", nil
}
