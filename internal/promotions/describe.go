package promotions

import (
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/promotion"
)

// Describe returns the view of a pipeline for which a plan was made. The caller adds Pipeline, App, Conditions, At,
// and the rest of Observed.
func Describe(in promotion.Input, plan promotion.Plan) View {
	d := describer{in: in, runs: runsAfter(in.Runs, plan.Runs)}
	v := View{Suspended: in.Spec.Suspend, Latest: string(plan.Latest), Current: string(plan.Current), Freeze: in.Frozen,
		Starving: plan.Starving, Environments: []EnvironmentView{}, Conditions: []ConditionView{}}
	for _, run := range slices.Backward(d.runs) {
		if run.Env == "" {
			short := ViewRun(run)
			v.Run = &short
			break
		}
	}
	for i, env := range in.Spec.Environments {
		verdict := promotion.Verdict{Env: env.Name, Phase: promotion.PhaseWaiting}
		if i < len(plan.Verdicts) {
			verdict = plan.Verdicts[i]
		}
		v.Environments = append(v.Environments, d.environment(env, verdict))
	}
	observed := in.Observed()
	observed.Latest, observed.LatestSince = plan.Latest, plan.LatestSince
	v.Observed = &Observed{Input: observed}
	return v
}

// ViewRun returns a run in short.
func ViewRun(r promotion.Run) RunView {
	return RunView{Number: r.Number, Revision: string(r.Revision), Was: string(r.Was), Cause: r.Cause, Environment: string(r.Env), By: r.By,
		StartedAt: r.StartedAt, EndedAt: r.EndedAt, End: r.End}
}

// runsAfter returns the runs, by number, after the changes of a plan.
func runsAfter(runs []promotion.Run, changes []promotion.RunChange) []promotion.Run {
	runs = slices.Clone(runs)
	for _, change := range changes {
		at := slices.IndexFunc(runs, func(r promotion.Run) bool { return r.Number == change.Run.Number })
		if at < 0 {
			runs = append(runs, change.Run)
			continue
		}
		runs[at].End = change.End
		if runs[at].EndedAt.IsZero() {
			runs[at].EndedAt = change.Run.EndedAt
		}
	}
	return runs
}

// describer makes the views of environments.
type describer struct {
	in   promotion.Input
	runs []promotion.Run // after the plan's changes
}

func (d describer) environment(env promotion.Environment, verdict promotion.Verdict) EnvironmentView {
	v := EnvironmentView{Name: string(env.Name), DependsOn: []string{}, Any: env.Any, Want: string(verdict.Want), Run: verdict.Run,
		Phase: verdict.Phase, Since: verdict.Since, Reasons: []ReasonView{}, Targets: []TargetState{}, Gates: []GateView{},
		Strategy: string(env.Strategy), AutoMerge: env.AutoMerge != nil, Soak: Seconds(env.Soak / time.Second)}
	for _, name := range env.DependsOn {
		v.DependsOn = append(v.DependsOn, string(name))
	}
	for _, reason := range verdict.Why {
		v.Reasons = append(v.Reasons, ReasonView(reason))
		if reason.Code == promotion.WhyWaitingApproval && env.Approval != nil {
			v.Approval = d.approval(env, verdict)
		}
	}
	for _, id := range env.Targets {
		v.Targets = append(v.Targets, targetState(id, d.in.Seen))
	}
	facts := append(d.factsOf(verdict.Run, env.Name), verdict.Facts...)
	for _, fact := range facts {
		if fact.Event == promotion.StageFinished && v.Finished.IsZero() {
			v.Finished = fact.At
		}
	}
	for _, gate := range env.Gates {
		v.Gates = append(v.Gates, d.gate(gate, verdict, facts))
	}
	v.Window, v.Proposal, v.Attempt = d.window(env), d.proposal(env.Name), d.attempt(verdict)
	v.Holds, v.Previous = d.holds(env), string(d.previous(env.Name, verdict.Want))
	v.Undone = d.undone(verdict)
	return v
}

// undone returns the revision that the run of an environment has replaced by an earlier one; nil: it has replaced none.
func (d describer) undone(verdict promotion.Verdict) *UndoneView {
	for _, run := range d.runs {
		if run.Number == verdict.Run && run.Env == verdict.Env && run.Was != "" &&
			(run.Cause == promotion.ByRollback || run.Cause == promotion.ByFailure) && !d.isNewer(run.Revision, run.Was) {
			return &UndoneView{Revision: string(run.Was), By: run.By}
		}
	}
	return nil
}

func (d describer) isNewer(r, other promotion.Revision) bool {
	for _, s := range slices.Backward(d.in.Sightings) {
		if s.Revision == r || s.Revision == other {
			return s.Revision == r
		}
	}
	return false
}

// factsOf returns the facts of an environment in a run.
func (d describer) factsOf(number int64, env promotion.EnvName) (facts []promotion.Fact) {
	for _, run := range d.runs {
		if run.Number != number {
			continue
		}
		for _, fact := range run.Facts {
			if fact.Env == env {
				facts = append(facts, fact)
			}
		}
	}
	return facts
}

func targetState(id promotion.TargetID, seen map[promotion.TargetID]promotion.Seen) TargetState {
	state := TargetState{Cluster: id.Cluster, Namespace: id.Namespace, Health: promotion.Unknown}
	s, known := seen[id]
	if !known {
		state.Reason = promotion.NotSynced
		return state
	}
	state.Health, state.Reason, state.Message, state.Revision = s.Class, s.Why, s.Message, string(s.Applied)
	if s.Rechecking && s.Last != "" {
		state.Health = s.Last
	}
	if s.Attempted != s.Applied {
		state.Attempted = string(s.Attempted)
	}
	return state
}

func (d describer) gate(gate promotion.Gate, verdict promotion.Verdict, facts []promotion.Fact) GateView {
	v := GateView{Name: gate.Name, When: gate.When, State: GateWaiting}
	result, asked := d.in.Gates[promotion.GateKey{Run: verdict.Run, Env: verdict.Env, Gate: gate.Name}]
	if asked {
		v.Detail, v.At = result.Detail, result.At
	}
	passed := slices.ContainsFunc(facts, func(f promotion.Fact) bool { return f.Event == promotion.GateEvent(gate.Name) })
	switch {
	case passed || result.Passed:
		v.State = GatePassed
	case result.Failed:
		v.State = GateFailed
	}
	return v
}

// window returns the state of the windows of an environment; nil without any.
func (d describer) window(env promotion.Environment) *WindowView {
	if len(env.Windows) == 0 {
		return nil
	}
	at := env.Windows.At(d.in.Now)
	v := WindowView{Open: at.Open, Zone: env.Windows.Zone().String()}
	if at.Open {
		if v.Until = env.Windows.OpenUntil(d.in.Now); env.Windows.At(v.Until).Open { // no end is near
			v.Until = time.Time{}
		}
	}
	if !at.Open && at.Opens {
		v.Until = at.Until
	}
	if at.By != nil {
		v.Reason = at.By.Reason
	}
	return &v
}

func (d describer) approval(env promotion.Environment, verdict promotion.Verdict) *ApprovalView {
	run := promotion.Run{Number: verdict.Run, Revision: verdict.Want}
	given := promotion.Approvers(d.in.Intents, &run, env.Name, env.Approval)
	return &ApprovalView{Revision: string(verdict.Want), Run: verdict.Run, Count: env.Approval.Count,
		Given: append([]string{}, given...), By: append([]string{}, env.Approval.By...)}
}

func (d describer) proposal(env promotion.EnvName) *ProposalView {
	p, ok := d.in.Proposals[env]
	if !ok {
		return nil
	}
	return &ProposalView{Number: p.Number, URL: p.URL, Revision: string(p.Revision), State: p.State, At: p.At, By: p.By, Checks: p.Checks,
		FailedChecks: p.FailedChecks}
}

// attempt returns the newest attempt at promoting into an environment in its run; nil if there was none.
func (d describer) attempt(verdict promotion.Verdict) *AttemptView {
	var newest *AttemptView
	for _, op := range []promotion.Op{promotion.OpPropose, promotion.OpMerge, promotion.OpNotify} {
		a, ok := d.in.Attempts[promotion.AttemptKey{Run: verdict.Run, Env: verdict.Env, Op: op}]
		if !ok || newest != nil && !a.At.After(newest.At) {
			continue
		}
		newest = &AttemptView{Op: op, Revision: string(verdict.Want), At: a.At, Status: a.Status,
			Succeeded: a.Status == promotion.AttemptDone, ActionID: a.ActionID, Error: a.Error}
	}
	return newest
}

// holds returns the holds in force: the newest one of people on the pipeline and on the environment, and that of the definition.
func (d describer) holds(env promotion.Environment) []HoldView {
	var pipeline, own *HoldView
	for _, intent := range d.in.Intents {
		at := &own
		switch intent.Env {
		case "":
			at = &pipeline
		case env.Name:
		default:
			continue
		}
		switch {
		case intent.Kind == promotion.HoldBack && (intent.Until.IsZero() || d.in.Now.Before(intent.Until)):
			*at = &HoldView{By: intent.By.Name, Reason: intent.Reason, Until: intent.Until, Revision: string(intent.Revision),
				Pipeline: intent.Env == ""}
		case intent.Kind == promotion.Unhold:
			*at = nil
		}
	}
	holds := []HoldView{}
	for _, hold := range []*HoldView{pipeline, own} {
		if hold != nil {
			holds = append(holds, *hold)
		}
	}
	if h := env.Hold; h != nil && (h.Until.IsZero() || d.in.Now.Before(h.Until)) {
		holds = append(holds, HoldView{Reason: h.Reason, Until: h.Until, Revision: string(h.Revision), Definition: true})
	}
	return holds
}

// previous returns the newest other revision that a run finished in an environment; "" if there is none.
func (d describer) previous(env promotion.EnvName, want promotion.Revision) promotion.Revision {
	for _, run := range slices.Backward(d.runs) {
		if run.Revision == want {
			continue
		}
		for _, fact := range run.Facts {
			if fact.Env == env && fact.Event == promotion.StageFinished {
				return run.Revision
			}
		}
	}
	return ""
}
