package main

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/schedule"
)

// engine measures the scheduler alone, in memory: one deployment through one
// stage of so many hosts, every action ending at once. A decision is one row
// that the engine returned; the rows of ends are applied in the measured time too.
func engine(_ context.Context, o Options) ([]Result, error) {
	var results []Result
	for _, hosts := range []int{1_000, 10_000, 100_000} {
		result := Result{Bench: "scheduler", Subject: fmt.Sprintf("%s hosts", grouped(float64(hosts))), Unit: "decisions/s"}
		for range o.Rounds {
			round, err := decideAll(hosts)
			if err != nil {
				return nil, err
			}
			result.Rounds = append(result.Rounds, round)
		}
		result.summarize()
		results = append(results, result)
	}
	return results, nil
}

// decideAll takes one deployment to its end and counts the rows that were decided.
func decideAll(hosts int) (Round, error) {
	plan, problems := schedule.Compile(fleet(hosts))
	if err := problems.Err(); err != nil {
		return Round{}, err
	}
	e := schedule.New("fleet")
	e.AddVersion(1, plan)
	now := time.Now()
	for i, row := range []schedule.Entry{
		{Event: schedule.PipelineDefined, Class: schedule.Change, Version: 1},
		{Event: schedule.DeploymentCreated, Class: schedule.Note, Deployment: 1, Revision: 1, Version: 1, Occurrence: 1},
	} {
		row.Pipeline, row.Target, row.Seq, row.At = "fleet", "fleet", int64(i+1), now
		if err := e.Apply(row); err != nil {
			return Round{}, err
		}
	}
	start, decided := time.Now(), 0
	for {
		decision, err := e.Decide(now, 2_000)
		if err != nil {
			return Round{}, err
		}
		decided += len(decision.Entries)
		for _, w := range decision.Work {
			if err := e.Apply(end(e, w, now)); err != nil {
				return Round{}, err
			}
		}
		if decision.Empty() && !decision.More {
			break
		}
	}
	if d, _ := e.Deployment(1); d.Status != schedule.Finished {
		return Round{}, fmt.Errorf("fleet of %d hosts: the deployment is %s, not finished", hosts, d.Status)
	}
	return measured(decided, start), nil
}

// end is the fact that the work's action succeeded.
func end(e *schedule.Engine, w schedule.Work, now time.Time) schedule.Entry {
	return schedule.Entry{
		Pipeline: "fleet", Seq: e.Seq() + 1, Deployment: w.Deployment, Target: w.Target, Event: w.Event,
		Class: schedule.Fact, Revision: w.Revision, Version: w.Version, At: now,
	}
}

// fleet is a pipeline of one stage with one group of so many hosts, a quarter of them in flight.
func fleet(hosts int) schedule.Definition {
	group := schedule.Group{Name: "all", MaxParallel: schedule.Limit{N: 25, Percent: true}}
	for i := range hosts {
		name := fmt.Sprintf("h%06d", i)
		group.Hosts = append(group.Hosts, schedule.Host{Name: name, URL: "local://" + name})
	}
	return schedule.Definition{
		Pipeline: "fleet",
		Order:    schedule.Runnable,
		Service:  schedule.Service{Name: "fleet", Manager: "none"},
		Stages: []schedule.Stage{{
			Name: "prod", Kind: schedule.HostStage, After: []string{}, Groups: []schedule.Group{group},
			Queue: schedule.FIFO, OnFailure: schedule.Release,
			Chain: []schedule.Step{
				{Name: schedule.Replicate, Event: schedule.HostReplicated},
				{Name: schedule.Deploy, Event: schedule.HostDeployed},
			},
		}},
	}
}
