package promoter

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/kube/pool"
	"github.com/waybill-dev/waybill/internal/marker"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/promoter/resource"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
	"github.com/waybill-dev/waybill/internal/queue"
)

// stageLook is one look at the promotions of a pipeline of a waybill.yaml.
type stageLook struct {
	*stages
	name     string // in the log of promotions
	pipeline string
	state    promotions.State
	now      time.Time         // by the database's clock, as all times in the log
	wanted   []*stagePromotion // by the names of their stages
	runs     []promotion.RunChange
	closing  []promotion.Step // closings of proposals that are elsewhere, or whose runs have ended
	cancels  []promotion.AttemptKey
	gates    map[string]check // live gates with an expression, by the ids of their actions
}

// stagePromotion is the live promotion of a stage.
type stagePromotion struct {
	action   queue.ActionState
	work     promotion.StageWork
	env      promotion.Environment
	host     *promotion.Host
	sink     *promotion.Sink
	run      promotion.Run
	seen     map[promotion.TargetID]promotion.Seen
	verdict  promotion.Verdict
	isStored bool // the log has the run
}

// take finds the promotions that are wanted, with their runs, and ends the runs of those that are not.
func (l *stageLook) take(found []queue.ActionState) {
	last := l.state.LastRun
	byStage := map[string]*stagePromotion{}
	for _, a := range found {
		one := &stagePromotion{action: a}
		handedOff := a.Thread.Status == action.Queued || a.Thread.Status == action.Running
		if a.Step == nil || !handedOff || !a.Thread.CancelAt.IsZero() || json.Unmarshal(a.Parameters, &one.work) != nil ||
			one.work.Environment == nil {
			continue
		}
		one.read(l.pipeline)
		byStage[one.work.Stage] = one // a later one has taken the stage over
	}
	for _, name := range slices.Sorted(maps.Keys(byStage)) {
		one := byStage[name]
		i := slices.IndexFunc(l.state.Runs, func(r promotion.Run) bool {
			return r.End == promotion.Running && r.By == one.action.ID.String()
		})
		if one.isStored = i >= 0; one.isStored {
			one.run = l.state.Runs[i]
		} else {
			last++
			one.run = promotion.Run{Number: last, Revision: one.work.Revision, Cause: l.cause(one), Env: one.env.Name,
				By: one.action.ID.String(), Environments: []promotion.EnvName{one.env.Name}, StartedAt: l.now}
			l.runs = append(l.runs, promotion.RunChange{Run: one.run})
		}
		l.wanted = append(l.wanted, one)
	}
	l.endRuns()
}

// cause returns the cause of a new run. In one that repeats a former run of the same revision an earlier closing or merge does not
// count.
func (l *stageLook) cause(one *stagePromotion) promotion.RunCause {
	for _, r := range l.state.Runs {
		if r.Env == one.env.Name && r.Revision == one.work.Revision {
			return promotion.ByRetry
		}
	}
	return promotion.ByCandidate
}

// endRuns ends the runs whose actions have ended, with their attempts and proposals.
func (l *stageLook) endRuns() {
	isWanted := func(r promotion.Run) bool {
		return slices.ContainsFunc(l.wanted, func(one *stagePromotion) bool { return one.run.Number == r.Number })
	}
	for _, r := range l.state.Runs {
		if r.End != promotion.Running || isWanted(r) {
			continue
		}
		change := promotion.RunChange{Run: r, End: promotion.Superseded}
		if slices.ContainsFunc(r.Facts, func(f promotion.Fact) bool { return f.Event == promotion.StageFinished }) {
			change.End = promotion.Finished
		}
		l.runs = append(l.runs, change)
		for key, a := range l.state.Attempts {
			if key.Run == r.Number && a.Status == promotion.AttemptLive && key.Op != promotion.OpClose {
				l.cancels = append(l.cancels, key)
			}
		}
	}
	l.closeProposals()
}

// closeProposals closes the open proposals of ended runs, but for one that a promotion has taken over where it is.
func (l *stageLook) closeProposals() {
	for _, env := range slices.Sorted(maps.Keys(l.state.Proposals)) {
		p := l.state.Proposals[env]
		at := slices.IndexFunc(l.state.Runs, func(r promotion.Run) bool { return r.Number == p.Run })
		used := slices.ContainsFunc(l.wanted, func(one *stagePromotion) bool { return one.env.Name == env && !l.isMoved(one) })
		_, tried := l.state.Attempts[promotion.AttemptKey{Run: p.Run, Env: env, Op: promotion.OpClose}]
		if p.State == promotion.Open && p.Host != nil && at >= 0 && !used && !tried {
			l.closing = append(l.closing, promotion.Step{Op: promotion.OpClose, Run: p.Run, Env: env, Revision: p.Revision,
				Number: p.Number})
		}
	}
}

// isMoved reports whether the open proposal of an environment is not where its promotion makes proposals: the strategy was edited
// since.
func (l *stageLook) isMoved(one *stagePromotion) bool {
	p := l.state.Proposals[one.env.Name]
	return p.State == promotion.Open && p.Host != nil && (one.host == nil || !one.host.HasSamePlace(*p.Host))
}

// awaitMoved reports whether a promotion has to wait until the proposal that is elsewhere has been closed. One that cannot be closed is
// left to people: the promotion is judged without it.
func (l *stageLook) awaitMoved(one *stagePromotion, in *promotion.EnvInput) (awaits bool) {
	if in.Proposal == nil || !l.isMoved(one) {
		return false
	}
	attempt, tried := l.state.Attempts[promotion.AttemptKey{Run: in.Proposal.Run, Env: one.env.Name, Op: promotion.OpClose}]
	closes := slices.ContainsFunc(l.closing, func(s promotion.Step) bool { return s.Env == one.env.Name })
	if awaits = closes || tried && attempt.Status == promotion.AttemptLive; !awaits {
		in.Proposal, in.Outdated = nil, 0
	}
	return awaits
}

// takeEdits has the promotions judged by the definition in force, unless their deployments are pinned to their own: the conditions
// of readiness may be edited during the wait. The strategy stays the one that the promotion has begun with.
func (l *stageLook) takeEdits(ctx context.Context) error {
	if len(l.wanted) == 0 {
		return nil
	}
	head, err := l.ledger.Head(ctx, l.pipeline)
	if err != nil {
		return err
	}
	for _, one := range l.wanted {
		if one.action.Step.Version == head.Version {
			continue
		}
		own, err := l.ledger.Definition(ctx, l.pipeline, one.action.Step.Version)
		if err != nil {
			return err
		}
		now, err := l.ledger.Definition(ctx, l.pipeline, head.Version)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(now.Stages, func(s pipeline.Stage) bool { return s.Name == one.work.Stage && s.Environment != nil })
		if own.Pin || i < 0 { // the engine cancels the promotion of a stage that is gone
			continue
		}
		v, next := one.work.Environment, now.Stages[i].Environment
		v.Soak, v.MinReady, v.Rollout = next.Soak, next.MinReady, next.Rollout
		one.env.Need, one.env.Soak = v.Need(), time.Duration(v.Soak)
	}
	return nil
}

// read turns the parameters of the action into an environment to judge.
func (one *stagePromotion) read(pipeline string) {
	v := one.work.Environment
	one.env = promotion.Environment{Name: promotion.EnvName(one.work.Stage), Need: v.Need(), Soak: time.Duration(v.Soak)}
	for _, t := range v.Targets {
		one.env.Targets = append(one.env.Targets, promotion.TargetID{Cluster: t.Cluster, Namespace: t.Namespace})
	}
	if v.Merge != nil {
		one.env.AutoMerge = &promotion.AutoMerge{IgnoreChecks: v.Merge.IgnoreChecks}
	}
	if n := v.Strategy.Notification; n != nil {
		one.env.Strategy, one.sink = promotion.Notification, &promotion.Sink{URL: n.URL, Secret: n.Secret}
	}
	p := v.Strategy.PullRequest
	if p == nil {
		return
	}
	one.env.Strategy = promotion.PullRequest
	one.host = &promotion.Host{Type: p.Type, URL: p.URL, APIURL: p.APIURL, Base: p.Base, Secret: p.Secret, Paths: p.Paths, Labels: p.Labels,
		Reviewers: p.Reviewers, Assignees: p.Assignees, Draft: p.Draft, Close: p.Close,
		Branch: cmp.Or(p.Branch, resource.StageBranch(pipeline, one.work.Stage))}
	if v.Merge != nil {
		one.host.Method, one.host.Queue, one.host.Unguarded = v.Merge.Method, v.Merge.Queue, v.Merge.Unguarded
	}
}

// source returns where the revisions of the stage's applications are.
func (one *stagePromotion) source() promotion.Source {
	s := one.work.Environment.Source
	return promotion.Source{Type: promotion.SourceType(s.Type), Key: s.Key, KeepBuild: s.KeepBuild}
}

// observe reads the states of all targets.
func (l *stageLook) observe() {
	var wants []pool.Want
	for _, one := range l.wanted {
		wants = append(wants, stageWants(one.work.Environment)...)
	}
	for _, one := range l.gates { // their states are not judged
		wants = append(wants, one.targets...)
	}
	states := l.pool.Use(l.name, wants)
	if len(wants) == 0 {
		l.pool.Forget(l.name)
	}
	l.stages.mu.Lock()
	defer l.stages.mu.Unlock()
	marked := map[string]bool{}
	for _, one := range l.wanted {
		before, now := l.stages.seen[pollName(l.name, one.env.Name)], map[promotion.TargetID]promotion.Seen{}
		for _, id := range one.env.Targets {
			now[id] = l.see(one, states[0], before[id], marked)
			states = states[1:]
		}
		one.seen, l.stages.seen[pollName(l.name, one.env.Name)] = now, now
	}
	l.marks.keep(l.name, marked)
}

// stageWants returns the applications of an environment.
func stageWants(v *pipeline.Environment) []pool.Want {
	wants := make([]pool.Want, len(v.Targets))
	for i, t := range v.Targets {
		wants[i] = pool.Want{Cluster: t.Cluster, GVK: schema.FromAPIVersionAndKind(v.App.APIVersion, v.App.Kind),
			Namespace: t.Namespace, Name: v.App.Name}
		switch promotion.SourceType(v.Source.Type) {
		case promotion.SourceLabel:
			wants[i].Label = v.Source.Key
		case promotion.SourceAnnotation:
			wants[i].Annotation = v.Source.Key
		}
	}
	return wants
}

// see returns the state of one target.
func (l *stageLook) see(one *stagePromotion, state pool.State, before promotion.Seen, marked map[string]bool) promotion.Seen {
	if state.Unseen != "" {
		return promotion.UnknownTarget(state.Unseen, state.Message)
	}
	if one.source().Type == promotion.SourceMarker {
		if why, message := l.marks.fill(l.mark(one), one.host, &state.App, marked); why != "" {
			return promotion.UnknownTarget(why, message)
		}
	}
	return promotion.Observe(state.App, one.source(), before, l.now)
}

func (l *stageLook) mark(one *stagePromotion) mark {
	return mark{pipeline: l.name, namespace: promotion.StageNamespace,
		of: marker.Environment{Namespace: promotion.StageNamespace, Pipeline: l.pipeline, Name: string(one.env.Name)}}
}

// judge judges the environments. Predecessors, approvals, windows and gates are the deployment's, and have passed.
func (l *stageLook) judge() {
	over := func(run int64) bool {
		return !slices.ContainsFunc(l.wanted, func(one *stagePromotion) bool { return one.run.Number == run })
	}
	again := time.Duration(0)
	for _, one := range l.wanted {
		in := promotion.EnvInput{Env: one.env, Now: l.now, RolloutTimeout: time.Duration(one.work.Environment.Rollout), Seen: one.seen,
			Run: &one.run, Cause: one.run.Cause, Attempts: l.state.Attempts, Inputs: one.inputs(), Passed: true, IsOver: over}
		if p, ok := l.state.Proposals[one.env.Name]; ok {
			in.Proposal = &p
			if p.Run != one.run.Number && p.State == promotion.Open {
				in.Outdated = p.Run
			}
		}
		awaits := l.awaitMoved(one, &in)
		one.verdict = promotion.Judge(in)
		if awaits {
			one.verdict.Do = slices.DeleteFunc(one.verdict.Do, func(s promotion.Step) bool { return !s.Cancel })
		}
		again = stageAgain
		for _, why := range one.verdict.Why {
			if left := why.Until.Sub(l.now); left > 0 {
				again = min(again, left)
			}
		}
	}
	if again > 0 {
		l.queue.AddAfter(l.name, max(again, mergeWakes))
	}
}

// inputs returns a hash of the settings that a promotion depends on.
func (one *stagePromotion) inputs() string {
	return hashOf(resource.Environment{Host: one.host, Webhook: one.sink}, "")
}

// record stores the judgment.
func (l *stageLook) record(ctx context.Context) error {
	c := promotions.Change{Pipeline: l.name, UID: l.name, Head: l.state.Head, Runs: l.runs, Cancel: l.cancels}
	for _, one := range l.wanted {
		c.Facts = append(c.Facts, one.verdict.Facts...)
		known, recorded := one.run.Phases[one.env.Name]
		if now := (promotion.PhaseSince{Phase: one.verdict.Phase, Since: one.verdict.Since}); !recorded || known != now {
			c.Phases = append(c.Phases, promotions.Phase{Run: one.run.Number, Env: one.env.Name, PhaseSince: now})
		}
		for _, step := range one.verdict.Do {
			if step.Cancel {
				c.Cancel = append(c.Cancel, step.Key())
			} else if start, ok := l.start(step, one); ok {
				c.Start = append(c.Start, start)
			}
		}
	}
	for _, step := range l.closing {
		if start, ok := l.start(step, nil); ok {
			c.Start = append(c.Start, start)
		}
	}
	if isEmpty(c) {
		return nil
	}
	_, err := l.promotions.Record(ctx, c)
	if errors.Is(err, promotions.ErrMoved) {
		l.wake(l.name)
		return err
	}
	for _, s := range c.Start {
		l.log.Info("step", obs.KeyPipeline, l.name, obs.KeyEnv, string(s.Work.Env), obs.KeyEvent, string(s.Work.Op), obs.KeyRun, s.Work.Run,
			obs.KeyRevision, string(s.Work.Revision))
	}
	return err
}

// start returns the attempt of a step, a child of the stage's action; false if its repository is not known.
func (l *stageLook) start(step promotion.Step, one *stagePromotion) (promotions.Start, bool) {
	repeats, was, started := step.Repeats, promotion.Revision(""), l.startOf(step.Run)
	if one == nil {
		one = &stagePromotion{}
	} else {
		repeats, started = repeats || one.run.Cause != promotion.ByCandidate, one.run.StartedAt
		for _, id := range one.env.Targets {
			if s := one.seen[id]; was == "" && s.Class != promotion.Unknown {
				was = s.Applied
			}
		}
	}
	s := promotions.Start{Base: step.Base, Head: step.Head, Work: promotion.Work{Namespace: promotion.StageNamespace, Pipeline: l.pipeline,
		UID: l.name, Run: step.Run, Started: started, Env: step.Env, Op: step.Op, Revision: step.Revision, Was: was, Number: step.Number,
		Head: step.Head, Repeats: repeats, Redo: step.Redo, Inputs: one.inputs()},
		Action: action.Action{Policy: policy(), Delivery: action.AtLeastOnce, CreatedBy: role, ParentID: one.action.ID,
			Name: fmt.Sprintf("%s %s/%s", step.Op, l.pipeline, step.Env)}}
	if step.Op == promotion.OpNotify {
		s.Work.Sink = one.sink
		s.Action.Handler, s.Action.Lane = promotion.HandlerNotification, lane(promotion.HandlerNotification, one.sink.URL, false)
		return s, true
	}
	host := one.host
	if step.Op == promotion.OpClose {
		host, s.Work.Reason = cmp.Or(l.state.Proposals[step.Env].Host, host), l.closingReason(step)
	}
	if host == nil {
		return promotions.Start{}, false
	}
	s.Work.Host, s.Work.Inputs = host, hashOf(resource.Environment{Host: host}, "")
	s.Action.Handler, s.Action.Lane = promotion.HandlerPullRequest, lane(promotion.HandlerPullRequest, host.URL, true)
	return s, true
}

// startOf returns the time of a run's start.
func (l *stageLook) startOf(run int64) time.Time {
	for _, r := range l.state.Runs {
		if r.Number == run {
			return r.StartedAt
		}
	}
	return l.now
}

// closingReason returns why a proposal is closed, for the comment on it.
func (l *stageLook) closingReason(step promotion.Step) string {
	for _, one := range l.wanted {
		switch {
		case one.env.Name != step.Env:
		case l.isMoved(one):
			return "the pipeline promotes to " + string(step.Env) + " in another way"
		case one.run.Revision != step.Revision:
			return "superseded by " + string(one.run.Revision)
		}
	}
	return "no longer wanted"
}

// openProposals returns the open proposals of a look.
func (l *stageLook) openProposals() (open []poll) {
	for _, one := range l.wanted {
		if p, ok := l.state.Proposals[one.env.Name]; ok && p.State == promotion.Open && one.host != nil && !l.isMoved(one) {
			open = append(open, poll{pipeline: l.name, namespace: promotion.StageNamespace, uid: l.name, env: one.env.Name, host: *one.host,
				known: p, refused: refusedMerge(l.state, one.env.Name, p)})
		}
	}
	return open
}

// isEnd reports whether a promotion with a reason has failed: nothing more happens until a person acts, who may retry the step.
func isEnd(code promotion.ReasonCode) bool {
	switch code {
	case promotion.WhyTargetFailed, promotion.WhyRolloutTimedOut, promotion.WhyDeclined, promotion.WhyAttemptFailed, promotion.WhyNoMarkers:
		return true
	}
	return false
}

// outcome returns how a promotion has ended; the zero Outcome: it has not.
func (one *stagePromotion) outcome() action.Outcome {
	v := one.verdict
	if v.Phase == promotion.PhaseComplete {
		return action.Outcome{Kind: action.Done}
	}
	for _, why := range v.Why {
		if isEnd(why.Code) {
			return action.Outcome{Kind: action.Fatal, Code: string(why.Code), Error: cmp.Or(why.Message, string(why.Code))}
		}
	}
	if v.Phase == promotion.PhaseFailed {
		return action.Outcome{Kind: action.Fatal, Code: string(promotion.WhyTargetFailed), Error: "the environment has failed"}
	}
	return action.Outcome{}
}

// report reports to the queue which promotions have begun and ended. An end that waits for its successors is reported again.
func (l *stageLook) report(ctx context.Context) error {
	var some []queue.Observation
	for _, one := range l.wanted {
		o := queue.Observation{ID: one.action.ID, Source: role, Outcome: one.outcome(), Ref: l.pipeline + "/" + one.work.Stage}
		if o.Outcome.Kind == 0 && one.action.Thread.Status == action.Running {
			continue
		}
		o.Began, o.Outcome.Ref = true, o.Ref
		some = append(some, o)
	}
	if len(some) == 0 {
		return nil
	}
	seen, err := l.ledger.Observe(ctx, some...)
	if err == nil {
		err = seen.Deferred.Err()
	}
	return err
}

// saveView stores the view of the environments: the judged ones as they are now, all more as they were last.
func (l *stageLook) saveView(ctx context.Context) error {
	in := promotion.Input{Now: l.now, Seen: map[promotion.TargetID]promotion.Seen{}, Runs: l.state.Runs, Attempts: l.state.Attempts,
		Proposals: l.state.Proposals}
	var fresh []promotions.EnvironmentView
	for _, one := range l.wanted {
		in.Seen, in.Spec.Environments = one.seen, []promotion.Environment{one.env}
		v := promotions.Describe(in, promotion.Plan{Runs: l.runs, Verdicts: []promotion.Verdict{one.verdict}})
		fresh = append(fresh, v.Environments...)
	}
	if len(fresh) == 0 {
		return nil
	}
	view, err := l.promotions.View(ctx, l.name)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	view.Pipeline, view.Conditions = l.name, []promotions.ConditionView{}
	view.Environments = slices.DeleteFunc(view.Environments, func(old promotions.EnvironmentView) bool {
		return slices.ContainsFunc(fresh, func(one promotions.EnvironmentView) bool { return one.Name == old.Name })
	})
	view.Environments = append(view.Environments, fresh...)
	text, err := json.Marshal(view.Environments)
	if err != nil {
		return fmt.Errorf("view of %s: %w", l.name, err)
	}
	l.stages.mu.Lock()
	known := l.stages.view[l.name] == string(text)
	l.stages.view[l.name] = string(text)
	l.stages.mu.Unlock()
	if known {
		return nil
	}
	return l.promotions.SaveView(ctx, view)
}
