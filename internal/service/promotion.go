package service

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
)

// OfKubernetes reports whether a pipeline with the name is one of Kubernetes, such as apps:podinfo. The names of others have
// no colon. Its runs are its deployments, its environments the stages, and its targets the hosts.
func OfKubernetes(name string) bool { return strings.Contains(name, ":") }

// refuseKubernetes returns fault.Refused for a pipeline of Kubernetes: the request needs a waybill.yaml.
func refuseKubernetes(name string) error {
	namespace, object, _ := strings.Cut(name, ":")
	return fault.New(fault.Refused, "%s is a pipeline of Kubernetes: this is for pipelines of a waybill.yaml", name).
		WithHint("waybill pipeline show %s; its definition: kubectl get pipeline %s --namespace %s", name, object, namespace)
}

// promotionView returns the view of a pipeline of Kubernetes. Without one the error is fault.NotFound, with the nearest name.
func (s *Service) promotionView(ctx context.Context, name string) (view promotions.View, err error) {
	if !promotions.OfStages(name) { // that is the part of another pipeline
		if view, err = s.ledger.Promotions.View(ctx, name); !fault.Is(err, fault.NotFound) {
			return view, err
		}
	}
	missing := fault.New(fault.NotFound, "pipeline %q not found", name).
		WithHint("a process with the role promoter shows the pipelines of its cluster; waybill pipeline list lists them")
	names, err := s.promotionNames(ctx)
	if err != nil {
		return view, err
	}
	return view, missing.WithNearest(name, names)
}

// promotionNames returns the names of the pipelines of Kubernetes.
func (s *Service) promotionNames(ctx context.Context) ([]string, error) {
	all, err := s.promotionViews(ctx)
	names := make([]string, len(all))
	for i, v := range all {
		names[i] = v.Pipeline
	}
	return names, err
}

// withNamespace returns the only name of a pipeline of Kubernetes that is name after its namespace; name without one.
func withNamespace(name string, names []string) string {
	found := ""
	for _, n := range names {
		if _, object, _ := strings.Cut(n, ":"); object == name {
			if found != "" {
				return name
			}
			found = n
		}
	}
	return cmp.Or(found, name)
}

// promotionViews returns the views of the pipelines of Kubernetes, by name.
func (s *Service) promotionViews(ctx context.Context) ([]promotions.View, error) {
	all, err := s.ledger.Promotions.Views(ctx, promotions.ViewQuery{})
	return slices.DeleteFunc(all, func(v promotions.View) bool { return promotions.OfStages(v.Pipeline) }), err
}

// promotionPipelines returns the pipelines of Kubernetes by name.
func (s *Service) promotionPipelines(ctx context.Context) ([]PipelineView, error) {
	all, err := s.promotionViews(ctx)
	if err != nil {
		return nil, fmt.Errorf("list pipelines of Kubernetes: %w", err)
	}
	views := make([]PipelineView, len(all))
	for i := range all {
		views[i] = pipelineOfView(all[i])
	}
	return views, nil
}

// promotionPipeline returns one pipeline of Kubernetes with its newest runs.
func (s *Service) promotionPipeline(ctx context.Context, name string) (PipelineView, error) {
	v, err := s.promotionView(ctx, name)
	if err != nil {
		return PipelineView{}, err
	}
	view := pipelineOfView(v)
	view.Deployments, err = s.runs(ctx, journal.DeploymentQuery{Pipeline: name, Limit: RecentLimit})
	if len(view.Deployments) > 0 {
		view.Last = &view.Deployments[0]
	}
	return view, err
}

// pipelineOfView returns a pipeline whose stages are its environments.
func pipelineOfView(v promotions.View) PipelineView {
	view := PipelineView{Name: v.Pipeline, Stages: []StageView{}, Active: []pipeline.DeploymentState{}, Resources: []journal.Resource{},
		Hosts: []HostView{}, Drift: []Drift{}, Left: []LeftService{}, Freeze: v.Freeze, Promotion: &v}
	for _, env := range v.Environments {
		view.Stages = append(view.Stages, stageOf(env))
	}
	if v.Run != nil {
		last := deploymentOf(v.Pipeline, *v.Run)
		view.Last = &last
		if last.Status == pipeline.StatusActive {
			view.Active = append(view.Active, activeState(v, last))
		}
	}
	return view
}

// stageOf returns an environment as a stage.
func stageOf(env promotions.EnvironmentView) StageView {
	at := Standing{Deployment: env.Run, Label: env.Want, Status: pipeline.StatusActive, At: env.Since, Hosts: len(env.Targets)}
	for _, target := range env.Targets {
		if target.Revision == env.Want && target.Health == promotion.Ready {
			at.HostsDone++
		}
	}
	stage := StageView{Name: env.Name, Kind: pipeline.EnvironmentStage, After: env.DependsOn, Hosts: len(env.Targets), Inside: []Standing{},
		Conditions: environmentConditions(env)}
	switch {
	case env.Want == "":
		if present := presentRevision(env); present != "" {
			stage.Current = &Standing{Label: present, Status: pipeline.StatusFinished, HostsDone: len(env.Targets), Hosts: len(env.Targets)}
		}
	case env.Phase == promotion.PhaseComplete:
		at.Status, at.At = pipeline.StatusFinished, env.Finished
		stage.Current = &at
	default:
		if present := presentRevision(env); present != "" && present != env.Want {
			stage.Current = &Standing{Label: present, Status: pipeline.StatusFinished, HostsDone: len(env.Targets), Hosts: len(env.Targets)}
		}
		if env.Phase == promotion.PhaseFailed {
			at.Status, at.FailedHere = pipeline.StatusFailed, true
		}
		stage.Inside = append(stage.Inside, at)
	}
	return stage
}

// presentRevision returns the revision that all targets of an environment run; "" if they differ.
func presentRevision(env promotions.EnvironmentView) string {
	present := ""
	for i, target := range env.Targets {
		if i > 0 && target.Revision != present {
			return ""
		}
		present = target.Revision
	}
	return present
}

// environmentConditions returns the conditions of an environment in the order in which a run meets them.
func environmentConditions(env promotions.EnvironmentView) []Condition {
	list := []Condition{}
	if w := env.Window; w != nil {
		c := Condition{Kind: WindowCondition, State: ConditionOpen, Text: "window open"}
		if !w.Open {
			c.State, c.Text = ConditionClosed, "window closed"
		}
		list = append(list, c)
	}
	if a := env.Approval; a != nil {
		list = append(list, Condition{Kind: ApprovalCondition, State: ConditionWaiting, Text: pendingOf(env).String(), Deployment: a.Run})
	}
	for _, when := range []promotion.GateWhen{promotion.Before, promotion.After} {
		for _, gate := range env.Gates {
			if gate.When == when {
				list = append(list, Condition{Kind: GateCondition, Name: gate.Name, State: ConditionState(gate.State),
					Text: "gate " + gate.Name, Deployment: env.Run})
			}
		}
	}
	return list
}

// pendingOf returns the approval that an environment waits for; nil if it waits for none.
func pendingOf(env promotions.EnvironmentView) *admission.ApprovalState {
	if env.Approval == nil {
		return nil
	}
	return &admission.ApprovalState{Stage: env.Name, Count: env.Approval.Count, Given: NonNil(env.Approval.Given), By: NonNil(env.Approval.By)}
}

// deploymentOf returns a run as a deployment.
func deploymentOf(name string, run promotions.RunView) journal.Deployment {
	d := journal.Deployment{Pipeline: name, Number: run.Number, Kind: kindOf(run.Cause), Label: run.Revision, Status: pipeline.StatusActive,
		By: run.By, CreatedAt: run.StartedAt, EndedAt: run.EndedAt}
	if run.End != promotion.Running {
		d.Status = pipeline.Status(run.End)
	}
	return d
}

// kindOf returns the cause of a run as the kind of a deployment.
func kindOf(cause promotion.RunCause) string {
	switch cause {
	case promotion.ByCandidate, "":
		return journal.Forward
	case promotion.ByRollback, promotion.ByFailure:
		return journal.Rollback
	}
	return string(cause)
}

// activeState returns the state of a run that is not over. A step is an environment.
func activeState(v promotions.View, d journal.Deployment) pipeline.DeploymentState {
	state := pipeline.DeploymentState{Deployment: d.Number, Label: d.Label, Status: d.Status, CreatedAt: d.CreatedAt, EndedAt: d.EndedAt}
	for _, env := range v.Environments {
		if env.Run != d.Number {
			continue
		}
		state.Total, state.Work = state.Total+1, state.Work+1
		switch {
		case env.Phase == promotion.PhaseComplete:
			state.Done, state.WorkDone = state.Done+1, state.WorkDone+1
		case env.Attempt != nil && env.Attempt.Status == promotion.AttemptLive:
			state.Live++
		}
		if pending := pendingOf(env); pending != nil {
			state.Approvals = append(state.Approvals, *pending)
		}
	}
	return state
}

// runs returns runs of a pipeline as deployments, newest first.
func (s *Service) runs(ctx context.Context, q journal.DeploymentQuery) ([]journal.Deployment, error) {
	want := promotions.RunQuery{Pipeline: q.Pipeline, Before: q.Before, Limit: q.Limit, Numbers: q.Numbers,
		Open: q.Status == pipeline.StatusActive}
	if q.Number != 0 {
		want.Numbers = []int64{q.Number}
	}
	ended := q.Status != "" && q.Status != pipeline.StatusActive
	if ended {
		want.Limit = 0 // selected below
	}
	found, err := s.ledger.Promotions.Runs(ctx, want)
	if err != nil {
		return nil, err
	}
	list := make([]journal.Deployment, 0, len(found))
	for _, run := range found {
		d := deploymentOf(run.Pipeline, promotions.ViewRun(run.Run))
		d.ID, d.Archive = run.ID, run.Archive
		if !ended || d.Status == q.Status {
			list = append(list, d)
		}
	}
	if q.Limit > 0 {
		list = list[:min(q.Limit, len(list))]
	}
	return list, nil
}

// promotedRevisions returns the revisions of the newest runs of a pipeline, newest first.
func (s *Service) promotedRevisions(ctx context.Context, name string, limit int) ([]pipeline.RegisteredRevision, error) {
	found, err := s.Deployments(ctx, journal.DeploymentQuery{Pipeline: name, Limit: cmp.Or(limit, RecentLimit)})
	if err != nil {
		return nil, err
	}
	state, err := s.ledger.Promotions.Load(ctx, name, "")
	list, known := []pipeline.RegisteredRevision{}, map[string]bool{}
	for _, d := range found {
		if !known[d.Label] {
			known[d.Label] = true
			r := pipeline.RegisteredRevision{Pipeline: name, Label: d.Label, State: journal.RevisionSealed, CreatedAt: d.CreatedAt}
			if promotion.IsRejectedEverywhere(state.Intents, promotion.Revision(d.Label)) {
				r.State = journal.RevisionRejected
			}
			list = append(list, r)
		}
	}
	return list, err
}

// readRun returns a run as a deployment.
func (s *Service) readRun(ctx context.Context, ref Ref) (journal.Deployment, error) {
	if _, err := s.promotionView(ctx, ref.Pipeline); err != nil {
		return journal.Deployment{}, err
	}
	found, err := s.runs(ctx, journal.DeploymentQuery{Pipeline: ref.Pipeline, Number: ref.Number, Limit: 1})
	switch {
	case err != nil:
		return journal.Deployment{}, err
	case len(found) == 0 && ref.Number == 0:
		return journal.Deployment{}, fault.New(fault.NotFound, "%s has no run yet", ref.Pipeline).
			WithHint("one starts when every target of its first environment is ready at a revision")
	case len(found) == 0:
		return journal.Deployment{}, deploymentNotFound(ref)
	}
	return found[0], nil
}

// promotionRun returns a run with the environments that it went through.
func (s *Service) promotionRun(ctx context.Context, ref Ref) (DeploymentView, error) {
	view := DeploymentView{Stages: []StageRun{}, Failures: []Failure{}, Commands: []RecordedCommand{}}
	v, err := s.promotionView(ctx, ref.Pipeline)
	if err != nil {
		return view, err
	}
	if view.Deployment, err = s.readRun(ctx, ref); err != nil {
		return view, err
	}
	if view.Now, err = s.ledger.Now(ctx); err != nil {
		return view, err
	}
	ref.Number = view.Number
	run, err := s.ledger.Promotions.Run(ctx, ref.Pipeline, ref.Number)
	if err != nil {
		return view, err
	}
	entries, err := s.runEntries(ctx, journal.EntryQuery{Pipeline: ref.Pipeline, Deployment: ref.Number})
	if err != nil {
		return view, err
	}
	view.Snapshot = pipeline.RegisteredRevision{Pipeline: ref.Pipeline, Label: view.Label, CreatedAt: view.CreatedAt}
	view.State = activeState(v, view.Deployment)
	names := run.Environments
	if run.Env != "" {
		names = []promotion.EnvName{run.Env}
	}
	for _, name := range names {
		view.Stages = append(view.Stages, stageRunOf(v, view.Deployment, string(name), entries))
	}
	if n := len(entries); n > 0 {
		view.Seq = entries[n-1].Seq
	}
	done := 0
	for _, stage := range view.Stages {
		if stage.State == RunFinished {
			done++
		}
	}
	view.State.Done, view.State.WorkDone, view.State.Total, view.State.Work = done, done, len(names), len(names)
	return view, nil
}

// stageRunOf returns the way of a run through an environment: from its entries, and its present state if the environment wants the
// revision of the run.
func stageRunOf(v promotions.View, d journal.Deployment, name string, entries []pipeline.Entry) StageRun {
	path := pipeline.Path(v.Pipeline, name)
	stage := StageRun{Name: name, Kind: pipeline.EnvironmentStage, Run: Run{Target: path, State: RunWaiting}}
	healthy := map[string]time.Time{}
	for _, e := range entries {
		switch {
		case e.Target != path && isWithin(e.Target, path) && e.Event == string(promotion.TargetHealthy):
			healthy[e.Target] = e.At
		case e.Target != path:
		case e.Event == string(promotion.StageStarted):
			stage.State, stage.StartedAt = RunRunning, e.At
		case e.Event == string(promotion.StageFinished):
			stage.State, stage.EndedAt = RunFinished, e.At
		case e.Event == string(promotion.StageFailed):
			stage.State, stage.EndedAt = RunFailed, e.At
		}
	}
	if d.Status != pipeline.StatusActive && stage.State == RunWaiting {
		stage.State = RunUnreached
	}
	i := slices.IndexFunc(v.Environments, func(env promotions.EnvironmentView) bool { return env.Name == name })
	if i < 0 {
		return stage
	}
	env := v.Environments[i]
	if env.Run == d.Number {
		addPresent(&stage, v.Pipeline, env)
	}
	stage.Groups = groupsOf(v.Pipeline, env, d.Label, healthy)
	return stage
}

// addPresent adds the present state of an environment to the stage of the run that it wants.
func addPresent(stage *StageRun, name string, env promotions.EnvironmentView) {
	if env.Phase == promotion.PhaseFailed && stage.State == RunRunning {
		stage.State = RunFailed
	}
	if stage.State != RunFinished && len(env.Reasons) > 0 {
		stage.Reason = env.Reasons[0].Message
		stage.Who = EnvironmentRemedy(name, env.Name, env.Want, env.Reasons[0].Code)
	}
}

// groupsOf returns the targets of an environment as hosts, in a group for each cluster.
func groupsOf(name string, env promotions.EnvironmentView, revision string, healthy map[string]time.Time) (groups []GroupRun) {
	for _, target := range env.Targets {
		cluster := "management"
		if target.Cluster != "" {
			cluster = strings.TrimSuffix(TargetName(name, target), "/"+target.Namespace)
		}
		path := TargetPath(name, env.Name, target)
		host := HostRun{Name: target.Namespace, Steps: []StepRun{}, Run: Run{Target: path, State: RunWaiting}}
		if at, ok := healthy[path]; ok {
			host.State, host.EndedAt = RunFinished, at
		} else if target.Attempted == revision && target.Health == promotion.Failed {
			host.State, host.Reason = RunFailed, target.Message
		}
		i := slices.IndexFunc(groups, func(g GroupRun) bool { return g.Name == cluster })
		if i < 0 {
			i = len(groups)
			groups = append(groups, GroupRun{Name: cluster, Run: Run{Target: pipeline.Path(name, env.Name) + "/" + cluster, State: host.State}})
		}
		groups[i].Hosts = append(groups[i].Hosts, host)
		if state := &groups[i].State; host.State == RunFailed || *state != RunFailed && host.State == RunWaiting {
			*state = host.State
		}
	}
	return groups
}

// TargetPath returns the path of a target, such as apps:podinfo/prod/leaf-eu/podinfo-prod.
func TargetPath(name, env string, target promotions.TargetState) string {
	return pipeline.Path(name, env) + "/" + TargetName(name, target)
}

// entriesMost bounds the entries that are read at a time.
const entriesMost = 10_000

// runEntries returns entries of a run, or of the pipeline and all its runs for deployment 0, in the form of the deployment log.
func (s *Service) runEntries(ctx context.Context, q journal.EntryQuery) ([]pipeline.Entry, error) {
	entries := []pipeline.Entry{}
	for more := true; more; {
		found, err := s.promotionPage(ctx, promotions.Page{Pipeline: q.Pipeline, Run: q.Deployment, All: q.Deployment == 0, After: q.After,
			Limit: entriesMost})
		if err != nil {
			return nil, err
		}
		for _, e := range found {
			entry := entryOf(q.Pipeline, e)
			if (q.Class == 0 || entry.Class == q.Class) && (q.Target == "" || isWithin(entry.Target, q.Target)) {
				entries = append(entries, entry)
			}
			q.After = e.Seq
		}
		more = len(found) == entriesMost
		switch n := len(entries); {
		case q.Limit <= 0 || n <= q.Limit:
		case q.Newest:
			entries = slices.Delete(entries, 0, n-q.Limit)
		default:
			return entries[:q.Limit], nil
		}
	}
	return entries, nil
}

// entryOf returns an entry of a run in the form of the deployment log.
func entryOf(name string, e promotions.Entry) pipeline.Entry {
	entry := pipeline.Entry{Pipeline: name, Seq: e.Seq, Deployment: e.Run, Target: name, Event: string(e.Event), Class: pipeline.Fact, At: e.At}
	if e.Class == promotions.Note {
		entry.Class = pipeline.Note
	}
	if e.Env != "" {
		entry.Target = pipeline.Path(name, string(e.Env))
	}
	if e.Target != nil {
		entry.Target = TargetPath(name, string(e.Env), promotions.TargetState{Cluster: e.Target.Cluster, Namespace: e.Target.Namespace})
	}
	entry.Detail = entryDetail(e)
	return entry
}

// promotionEntries returns the entries of a run that exists, or those of a pipeline.
func (s *Service) promotionEntries(ctx context.Context, q journal.EntryQuery) ([]pipeline.Entry, error) {
	var err error
	if q.Deployment != 0 {
		_, err = s.readRun(ctx, Ref{q.Pipeline, q.Deployment})
	} else {
		_, err = s.promotionView(ctx, q.Pipeline)
	}
	if err != nil {
		return nil, err
	}
	return s.runEntries(ctx, q)
}

// followRuns calls each for every entry that a query selects, present and future, until ctx ends.
func (s *Service) followRuns(ctx context.Context, q journal.EntryQuery, each func(pipeline.Entry) error) error {
	waiter := s.Waiter()
	for {
		entries, err := s.runEntries(ctx, q)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := each(e); err != nil {
				return err
			}
			q.After = max(q.After, e.Seq)
		}
		q.Limit, q.Newest = 0, false
		if err := waiter.Wait(ctx, followPoll, promotionTopics...); err != nil {
			return err
		}
	}
}

// promotionSteps returns the open environments of a run as steps, one for each reason.
func (s *Service) promotionSteps(ctx context.Context, ref Ref, target string) ([]pipeline.StepState, error) {
	v, err := s.promotionView(ctx, ref.Pipeline)
	if err != nil {
		return nil, err
	}
	if target, err = s.environmentOf(v, target); err != nil {
		return nil, err
	}
	steps := []pipeline.StepState{}
	for _, env := range v.Environments {
		if target != "" && env.Name != target {
			continue
		}
		key := pipeline.StepKey{Deployment: env.Run, Target: pipeline.Path(v.Pipeline, env.Name), Event: string(promotion.StageFinished)}
		state := stateOfPhase(env.Phase)
		if len(env.Reasons) == 0 && state == pipeline.StateComplete {
			continue
		}
		if len(env.Reasons) == 0 {
			steps = append(steps, pipeline.StepState{StepKey: key, State: state, Reason: phaseWords(env), At: env.Since})
		}
		for _, reason := range env.Reasons {
			steps = append(steps, pipeline.StepState{StepKey: key, State: state, Who: string(reason.Code),
				Reason: reasonWithAddress(env, reason), At: env.Since, Expected: reason.Until})
		}
	}
	return steps, nil
}

// WaitOf returns the first thing in the way of an environment, in a text that stays the same while it waits; "" if there is none.
func WaitOf(env promotions.EnvironmentView) string {
	if len(env.Reasons) == 0 {
		return ""
	}
	return reasonWithAddress(env, env.Reasons[0])
}

// reasonWithAddress returns a reason as text, with the address of the pull request if a person has to act on that.
func reasonWithAddress(env promotions.EnvironmentView, reason promotions.ReasonView) string {
	text := cmp.Or(reason.Message, string(reason.Code))
	if p := env.Proposal; p != nil && p.URL != "" && !strings.Contains(text, p.URL) &&
		(reason.Code == promotion.WhyWaitingMerge || reason.Code == promotion.WhyChecksFailed) {
		text += ": " + p.URL
	}
	return text
}

// stateOfPhase returns a phase as the state of a step.
func stateOfPhase(phase promotion.Phase) pipeline.State {
	switch phase {
	case promotion.PhaseComplete:
		return pipeline.StateComplete
	case promotion.PhaseFailed:
		return pipeline.StateFailed
	case promotion.PhasePromoting, promotion.PhaseRollingOut, promotion.PhaseProposed, promotion.PhaseSoaking, promotion.PhaseVerifying:
		return pipeline.StateClaimed
	}
	return pipeline.StateWaiting
}

// environmentOf returns the name of an environment that a person named, with or without the pipeline's; "" for the pipeline. The
// error is fault.NotFound for another name.
func (s *Service) environmentOf(v promotions.View, target string) (string, error) {
	name := strings.Trim(strings.TrimPrefix(target, v.Pipeline), "/")
	if name == "" {
		return "", nil
	}
	known := make([]string, len(v.Environments))
	for i, env := range v.Environments {
		if known[i] = env.Name; env.Name == name {
			return name, nil
		}
	}
	return "", fault.New(fault.NotFound, "pipeline %s has no environment %q", v.Pipeline, name).
		WithHint("it has %s", strings.Join(known, ", ")).WithNearest(name, known)
}
