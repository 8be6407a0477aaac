package main

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/pipeline"
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
	plan, problems := pipeline.Compile(fleet(hosts))
	if err := problems.Err(); err != nil {
		return Round{}, err
	}
	e := pipeline.New("fleet")
	e.AddVersion(1, plan)
	now := time.Now()
	for i, row := range []pipeline.Entry{
		{Event: pipeline.PipelineDefined, Class: pipeline.Change, Version: 1},
		{Event: pipeline.DeploymentCreated, Class: pipeline.Note, Deployment: 1, Revision: 1, Version: 1, Occurrence: 1},
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
	if d, _ := e.Deployment(1); d.Status != pipeline.StatusFinished {
		return Round{}, fmt.Errorf("fleet of %d hosts: the deployment is %s, not finished", hosts, d.Status)
	}
	return measured(decided, start), nil
}

// end returns the fact that the work's action succeeded.
func end(e *pipeline.Engine, w pipeline.Work, now time.Time) pipeline.Entry {
	return pipeline.Entry{
		Pipeline: "fleet", Seq: e.Seq() + 1, Deployment: w.Deployment, Target: w.Target, Event: w.Event,
		Class: pipeline.Fact, Revision: w.Revision, Version: w.Version, At: now,
	}
}

// fleet returns a pipeline of one stage with one group of so many hosts, of which a quarter may be
// in flight.
func fleet(hosts int) pipeline.Definition {
	group := pipeline.Group{Name: "all", MaxParallel: pipeline.Limit{N: 25, Percent: true}}
	for i := range hosts {
		name := fmt.Sprintf("h%06d", i)
		group.Hosts = append(group.Hosts, pipeline.Host{Name: name, URL: "local://" + name})
	}
	return pipeline.Definition{
		Pipeline: "fleet",
		Order:    pipeline.Runnable,
		Service:  pipeline.Service{Name: "fleet", Manager: "none"},
		Stages: []pipeline.Stage{{
			Name: "prod", Kind: pipeline.HostStage, After: []string{}, Groups: []pipeline.Group{group},
			Queue: pipeline.FIFO, OnFailure: pipeline.Release,
			Chain: []pipeline.Step{
				{Name: pipeline.Replicate, Event: pipeline.HostReplicated},
				{Name: pipeline.Deploy, Event: pipeline.HostDeployed},
			},
		}},
	}
}
