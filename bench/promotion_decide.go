package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/promotion"
)

// decisionSizes are the pipelines of promotion-decide with the targets of their figures.
var decisionSizes = []struct {
	environments, targets int
	atMost                float64 // CPU µs
}{{3, 2, 10}, {50, 20, 500}}

// decidePromotion measures the CPU time of deciding a pipeline in the middle of a run, in which nothing has changed. That
// of the collector is included.
func decidePromotion(_ context.Context, o Options) ([]Result, error) {
	results := make([]Result, len(decisionSizes))
	for i, size := range decisionSizes {
		r := &results[i]
		*r = Result{Bench: "promotion-decide", Unit: "CPU µs", Subject: fmt.Sprintf("%d environments × %d targets", size.environments, size.targets)}
		in := midRun(size.environments, size.targets)
		decisions := max(1, o.N/(size.environments*size.targets))
		for range o.Rounds {
			start, cpu := time.Now(), ownCPU()
			for range decisions {
				plan := promotion.Decide(in)
				if last := plan.Verdicts[len(plan.Verdicts)-1]; last.Phase != promotion.PhaseBlocked || len(plan.Runs) > 0 {
					return nil, errors.New("the pipeline is not in the middle of a run")
				}
			}
			r.Rounds = append(r.Rounds, cpuRound(decisions, start, cpu))
		}
		r.summarizeBy(func(r Round) float64 { return r.ClientCPU })
		r.judge(fmt.Sprintf("at most %g CPU µs", size.atMost), r.Median <= size.atMost)
	}
	return results, nil
}

// midRun returns a pipeline with a run that has finished a first half of its environments. The next one has an open
// proposal, for which later ones wait.
func midRun(environments, targets int) promotion.Input {
	now := time.Date(2026, time.March, 13, 12, 0, 0, 0, time.UTC)
	at := now.Add(-time.Hour)
	run := promotion.Run{Number: 20, Revision: "v20", Was: "v19", Cause: promotion.ByCandidate, StartedAt: at,
		Phases: map[promotion.EnvName]promotion.PhaseSince{}}
	in := promotion.Input{Now: now, Latest: "v20", LatestSince: at, Seen: map[promotion.TargetID]promotion.Seen{},
		Spec: promotion.Spec{OnNewRevision: promotion.Interrupt, OnDrift: promotion.Hold, OnBackward: promotion.Hold,
			RunTimeout: 24 * time.Hour, RolloutTimeout: 30 * time.Minute}}
	for n := range 20 {
		in.Sightings = append(in.Sightings,
			promotion.Sighting{Seq: int64(n + 1), Revision: promotion.Revision(fmt.Sprintf("v%d", n+1)), At: at})
	}
	half := max(1, environments/2)
	for e := range environments {
		env := promotion.Environment{Name: promotion.EnvName(fmt.Sprintf("env-%02d", e)), Need: targets,
			Strategy: promotion.PullRequest, Soak: time.Minute, Gates: []promotion.Gate{{Name: "smoke", When: promotion.After}}}
		if e > 0 {
			env.DependsOn = []promotion.EnvName{in.Spec.Environments[e-1].Name}
		}
		phase, revision := promotion.PhaseBlocked, promotion.Revision("v19")
		record := func(event promotion.Event, target *promotion.TargetID) {
			run.Facts = append(run.Facts, promotion.Fact{Run: run.Number, Env: env.Name, Target: target, Event: event, At: at})
		}
		if e <= half {
			phase = promotion.PhaseProposed
			record(promotion.StageStarted, nil)
		}
		if e < half {
			phase, revision = promotion.PhaseComplete, run.Revision
			record(promotion.EnvPromoted, nil)
			record(promotion.GateEvent("smoke"), nil)
		}
		for n := range targets {
			id := promotion.TargetID{Cluster: fmt.Sprintf("apps/leaf-%02d", n), Namespace: string(env.Name)}
			env.Targets = append(env.Targets, id)
			in.Seen[id] = promotion.Seen{Class: promotion.Ready, Applied: revision, Attempted: revision}
			if e < half {
				record(promotion.TargetHealthy, &id)
			}
		}
		if e < half {
			record(promotion.StageFinished, nil)
		}
		in.Spec.Environments = append(in.Spec.Environments, env)
		run.Environments = append(run.Environments, env.Name)
		run.Phases[env.Name] = promotion.PhaseSince{Phase: phase, Since: at}
	}
	in.Runs = []promotion.Run{run}
	in.Proposals = map[promotion.EnvName]promotion.Proposal{in.Spec.Environments[half].Name: {Number: 41, Revision: run.Revision,
		Run: run.Number, State: promotion.Open, At: at}}
	return in
}
