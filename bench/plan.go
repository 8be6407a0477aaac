package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/pipeline"
)

// planFlags declares the flags of plan.
func planFlags(f *flag.FlagSet, o *Options) {
	o.Hosts = []int{1_000, 10_000, 100_000}
	f.IntVar(&o.Deployments, "inside", 0, "deployments that are under way in the first stage")
	f.Func("hosts", "hosts of the pipeline, in ten stages; several: 1000,10000 (default 1000,10000,100000)", counts(&o.Hosts))
}

// plan measures the simulation of one more deployment, in which every step takes a second. Reading the log and
// compiling the definition are not in it. The figure is CPU time.
func plan(_ context.Context, o Options) ([]Result, error) {
	const stages = 10
	results := make([]Result, len(o.Hosts))
	for i, hosts := range o.Hosts {
		results[i] = Result{Bench: "plan", Unit: "CPU ms", Subject: fmt.Sprintf("%d hosts", hosts)}
		for range o.Rounds {
			c, err := newCrew(fleet(stages, max(1, hosts/stages)))
			for range o.Deployments {
				err = errors.Join(err, c.create())
			}
			if err != nil {
				return nil, err
			}
			if err := c.pass(); err != nil {
				return nil, err
			}
			heapAfterCollection()
			start, cpu := time.Now(), ownCPU()
			found, err := c.engine.Simulate(pipeline.Scenario{Now: c.now, Revision: c.created + 1,
				Duration: func(pipeline.StepKey) time.Duration { return time.Second }})
			if err != nil {
				return nil, err
			}
			if last := found.Ends[len(found.Ends)-1]; last.Status != pipeline.StatusFinished {
				return nil, fmt.Errorf("the deployment is %s: %s", last.Status, last.Reason)
			}
			results[i].Rounds = append(results[i].Rounds, cpuRound(1, start, cpu))
		}
		results[i].summarizeBy(func(r Round) float64 { return r.ClientCPU / 1000 })
	}
	return results, nil
}
