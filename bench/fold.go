package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/pipeline"
)

func foldFlags(f *flag.FlagSet, o *Options) {
	f.IntVar(&o.Entries, "entries", 0, "of a log in the database of --driver, which is read as a process does at its start; 0: from memory")
}

// fold measures how fast an engine folds a log: that of foldStored, or one from memory of 20 deployments through 10 stages of 1,000
// hosts, 1.2 million rows.
func fold(ctx context.Context, o Options) ([]Result, error) {
	if o.Entries > 0 {
		return foldStored(ctx, o)
	}
	c, err := deployedFleet(fleet(10, 1_000), 20)
	if err != nil {
		return nil, err
	}
	result := Result{Bench: "fold", Subject: fmt.Sprintf("%s rows from memory", grouped(float64(len(c.rows)))), Unit: "rows/CPU s"}
	c.engine = nil
	for range o.Rounds {
		start, cpu := time.Now(), ownCPU()
		e := pipeline.New("fleet")
		e.AddVersion(1, c.plan)
		for _, row := range c.rows {
			if err := e.Apply(row); err != nil {
				return nil, err
			}
		}
		result.Rounds = append(result.Rounds, cpuRound(len(c.rows), start, cpu))
	}
	result.summarize()
	return []Result{result}, nil
}

// deployedFleet returns a crew whose deployments have ended, with all rows.
func deployedFleet(d pipeline.Definition, deployments int) (*crew, error) {
	c, err := newCrew(d)
	if err != nil {
		return nil, err
	}
	c.keep = true
	c.rows = []pipeline.Entry{{Pipeline: "fleet", Seq: 1, Target: "fleet", Event: pipeline.PipelineDefined,
		Class: pipeline.Change, Version: 1, At: c.now}}
	for range deployments {
		if err := c.create(); err != nil {
			return nil, err
		}
	}
	for work := true; work; {
		if err := c.pass(); err != nil {
			return nil, err
		}
		work = len(c.live) > 0
		if err := c.end(len(c.live)); err != nil {
			return nil, err
		}
	}
	return c, nil
}
