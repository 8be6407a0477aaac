package servertest

import (
	"context"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/cron"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
)

// PromotionPipeline is the name of the pipeline of Kubernetes that StorePodinfo stores.
const PromotionPipeline = "apps:podinfo"

// Podinfo returns the world of the worked example at a time: run 12 has brought 6.6.0 to dev and staging, and the pull request for prod
// is open. change, which may be nil, edits it.
func Podinfo(now time.Time, change func(*promotion.Input, *promotion.Plan)) (promotion.Input, promotion.Plan) {
	at := func(minute int) time.Time { return now.Add(time.Duration(minute-20) * time.Minute) } // minutes after 14:00
	dev := promotion.TargetID{Namespace: "podinfo-dev"}
	staging := promotion.TargetID{Cluster: "apps/leaf-eu", Namespace: "podinfo-staging"}
	eu, us := promotion.TargetID{Cluster: "apps/leaf-eu", Namespace: "podinfo-prod"}, promotion.TargetID{Cluster: "apps/leaf-us", Namespace: "podinfo-prod"}
	seen := func(r promotion.Revision) promotion.Seen {
		return promotion.Seen{Class: promotion.Ready, Applied: r, Attempted: r}
	}
	windows, _, err := admission.ParseWindows([]admission.Window{{Kind: cron.Allow, Schedule: "0 0 * * *", Duration: day,
		Timezone: "Europe/Paris"}})
	if err != nil {
		panic(err) // a constant
	}
	in := promotion.Input{Now: now,
		Spec: promotion.Spec{Environments: []promotion.Environment{
			{Name: "dev", Targets: []promotion.TargetID{dev}, Need: 1},
			{Name: "staging", Targets: []promotion.TargetID{staging}, Need: 1, DependsOn: []promotion.EnvName{"dev"}, Soak: 5 * time.Minute,
				Strategy: promotion.PullRequest, AutoMerge: &promotion.AutoMerge{}, Gates: []promotion.Gate{{Name: "smoke", When: promotion.After}}},
			{Name: "prod", Targets: []promotion.TargetID{eu, us}, Need: 2, DependsOn: []promotion.EnvName{"staging"},
				Strategy: promotion.PullRequest, Windows: windows, Approval: &admission.Approval{Count: 1}},
		}},
		Seen: map[promotion.TargetID]promotion.Seen{dev: seen("6.6.0"), staging: seen("6.6.0"), eu: seen("6.5.4"), us: seen("6.5.4")},
		Runs: []promotion.Run{
			{Number: 11, Revision: "6.5.4", Cause: promotion.ByCandidate, StartedAt: at(-600), EndedAt: at(-500), End: promotion.Finished, Environments: names,
				Facts: []promotion.Fact{{Run: 11, Event: promotion.PipelineStarted, At: at(-600)},
					{Run: 11, Env: "prod", Event: promotion.StageFinished, At: at(-500)}}},
			{Number: 12, Revision: "6.6.0", Was: "6.5.4", Cause: promotion.ByCandidate, StartedAt: at(2), Environments: names, Facts: []promotion.Fact{
				{Run: 12, Event: promotion.PipelineStarted, At: at(2)},
				{Run: 12, Env: "dev", Event: promotion.StageStarted, At: at(2)},
				{Run: 12, Env: "dev", Target: &dev, Event: promotion.TargetHealthy, At: at(2)},
				{Run: 12, Env: "dev", Event: promotion.StageFinished, At: at(2)},
				{Run: 12, Env: "staging", Event: promotion.StageStarted, At: at(2)},
				{Run: 12, Env: "staging", Event: promotion.EnvProposed, At: at(2), Detail: "pull request 40"},
				{Run: 12, Env: "staging", Event: promotion.EnvPromoted, At: at(3)},
				{Run: 12, Env: "staging", Target: &staging, Event: promotion.TargetHealthy, At: at(4)},
				{Run: 12, Env: "staging", Event: promotion.GateEvent("smoke"), At: at(9)},
				{Run: 12, Env: "staging", Event: promotion.StageFinished, At: at(9)},
				{Run: 12, Env: "prod", Event: promotion.StageStarted, At: at(9)},
				{Run: 12, Env: "prod", Event: promotion.EnvProposed, At: at(9), Detail: "pull request 41"},
			}},
		},
		Proposals: map[promotion.EnvName]promotion.Proposal{"prod": {Number: 41, URL: "https://git.example.com/apps/fleet/pulls/41",
			Revision: "6.6.0", Run: 12, State: promotion.Open, At: at(9)}},
	}
	verdict := func(env promotion.EnvName, phase promotion.Phase, since int, why ...promotion.Reason) promotion.Verdict {
		return promotion.Verdict{Env: env, Want: "6.6.0", Run: 12, Phase: phase, Since: at(since), Why: why}
	}
	plan := promotion.Plan{Latest: "6.6.0", Current: "6.6.0", Verdicts: []promotion.Verdict{
		verdict("dev", promotion.PhaseComplete, 2), verdict("staging", promotion.PhaseComplete, 9),
		verdict("prod", promotion.PhaseProposed, 9, promotion.Reason{Code: promotion.WhyWaitingMerge, Message: "a person must merge it"}),
	}}
	if change != nil {
		change(&in, &plan)
	}
	return in, plan
}

const day = 24 * 60 * 60 * 1e9

var names = []promotion.EnvName{"dev", "staging", "prod"} //nolint:gochecknoglobals // a constant list

// AwaitApproval changes the worked example: prod waits for one approval, and nothing is proposed for it.
func AwaitApproval(in *promotion.Input, plan *promotion.Plan) {
	in.Proposals = nil
	prod := &plan.Verdicts[2]
	prod.Phase = promotion.PhaseBlocked
	prod.Why = []promotion.Reason{{Code: promotion.WhyWaitingApproval, Message: "approval 0 of 1"}}
}

// LoseTarget changes the worked example: the application is not there on the second cluster of prod.
func LoseTarget(in *promotion.Input, _ *promotion.Plan) {
	in.Seen[in.Spec.Environments[2].Targets[1]] = promotion.UnknownTarget(promotion.TargetNotFound, "helmreleases.helm.toolkit.fluxcd.io podinfo not found")
}

// StorePodinfo stores the worked example as a promoter has recorded it, with its view, over an earlier state.
func StorePodinfo(ctx context.Context, l *ledger.Ledger, in promotion.Input, plan promotion.Plan) error {
	state, err := l.Promotions.Load(ctx, PromotionPipeline, "7a1f")
	if err != nil {
		return err
	}
	change := promotions.Change{Pipeline: PromotionPipeline, UID: "7a1f", Head: state.Head}
	for _, run := range in.Runs {
		change.Facts = append(change.Facts, run.Facts...)
		if run.Number > state.LastRun {
			started := run
			started.End, started.EndedAt, started.Facts = promotion.Running, time.Time{}, nil
			change.Runs = append(change.Runs, promotion.RunChange{Run: started})
			if run.End != promotion.Running {
				change.Runs = append(change.Runs, promotion.RunChange{Run: run, End: run.End})
			}
		}
	}
	if _, err := l.Promotions.Record(ctx, change); err != nil {
		return err
	}
	if state, err = l.Promotions.Load(ctx, PromotionPipeline, "7a1f"); err != nil {
		return err
	}
	in.Intents, in.Frozen = state.Intents, state.Frozen
	view := promotions.Describe(in, plan)
	view.Pipeline = PromotionPipeline
	view.App = promotions.App{APIVersion: "helm.toolkit.fluxcd.io/v2", Kind: "HelmRelease", Name: "podinfo"}
	return l.Promotions.SaveView(ctx, view)
}

// Promote stores the worked example as it is now. change, which may be nil, edits it.
func (w *World) Promote(t testing.TB, change func(*promotion.Input, *promotion.Plan)) {
	t.Helper()
	in, plan := Podinfo(time.Now().UTC().Truncate(time.Microsecond), change)
	if err := StorePodinfo(t.Context(), w.Ledger, in, plan); err != nil {
		t.Fatal(err)
	}
}
