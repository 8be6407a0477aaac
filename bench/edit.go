package main

import (
	"context"
	"errors"
	"flag"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/pipeline"
)

// editFlags declares the flags of edit.
func editFlags(f *flag.FlagSet, o *Options) {
	o.Hosts = []int{10_000}
	f.IntVar(&o.Deployments, "inside", 100, "deployments that are inside when the edit comes")
	f.Func("hosts", "hosts of the pipeline, in 100 stages (default 10000)", counts(&o.Hosts))
}

// edit measures an edit of a pipeline with deployments inside, half on their way through its
// stages: computing it, which needs no lock, and applying its rows, which a pass or another writer
// may do under the lock of the head. The figure is CPU time.
func edit(_ context.Context, o Options) ([]Result, error) {
	kinds := editKinds()
	results := make([]Result, 2*len(kinds))
	for range o.Rounds {
		c, d, err := crewInside(o.Deployments, o.Hosts[0])
		if err != nil {
			return nil, err
		}
		for i, kind := range kinds {
			d.Stages = slices.Clone(d.Stages)
			kind.edit(&d)
			computed, applied, err := c.edit(d)
			if err != nil {
				return nil, err
			}
			results[2*i].Subject, results[2*i+1].Subject = kind.name+": computed", kind.name+": applied"
			results[2*i].Rounds, results[2*i+1].Rounds = append(results[2*i].Rounds, computed), append(results[2*i+1].Rounds, applied)
		}
	}
	for i := range results {
		results[i].Bench, results[i].Unit = "edit", "CPU ms"
		results[i].summarizeBy(func(r Round) float64 { return r.ClientCPU / 1000 })
	}
	return results, nil
}

// editKind is one kind of edit that is measured.
type editKind struct {
	name string
	edit func(*pipeline.Definition)
}

// editKinds returns the kinds of edits, each of which may follow any other.
func editKinds() []editKind {
	return []editKind{
		{"a host joins", func(d *pipeline.Definition) {
			g := &d.Stages[len(d.Stages)-1].Groups[0]
			g.Hosts = append(slices.Clone(g.Hosts), fleetHost("joins"))
		}},
		{"a stage is inserted", func(d *pipeline.Definition) {
			last := &d.Stages[len(d.Stages)-1]
			d.Stages = append(d.Stages, fleetStage("new", 1))
			d.Stages[len(d.Stages)-1].After, last.After = last.After, []string{"new"}
		}},
		{"a step is inserted in each stage", func(d *pipeline.Definition) {
			for s := range d.Stages {
				d.Stages[s].Chain = append(slices.Clone(d.Stages[s].Chain), pipeline.Step{Name: "warm", Event: "host-warm"})
			}
		}},
	}
}

// crewInside returns a crew with deployments in many stages of a pipeline, and its definition.
func crewInside(inside, hosts int) (*crew, pipeline.Definition, error) {
	const stages = 100
	d := fleet(stages, max(1, hosts/stages))
	c, err := newCrew(d)
	for range inside {
		err = errors.Join(err, c.create())
	}
	if err != nil {
		return nil, d, err
	}
	for range stages / 2 * 9 { // a stage takes about ten passes
		if err := errors.Join(c.pass(), c.end(len(c.live))); err != nil {
			return nil, d, err
		}
	}
	return c, d, nil
}

// edit puts a definition in force and measures both halves.
func (c *crew) edit(d pipeline.Definition) (computed, applied Round, err error) {
	plan, problems := pipeline.Compile(d)
	if err := problems.Err(); err != nil {
		return computed, applied, err
	}
	c.version++
	heapAfterCollection()
	start, cpu := time.Now(), ownCPU()
	e := c.engine.Edit(c.version, plan, c.created, c.now)
	computed = cpuRound(1, start, cpu)
	if err := e.Refused.Err(); err != nil {
		return computed, applied, err
	}
	c.engine.AddVersion(c.version, plan)
	heapAfterCollection()
	start, cpu = time.Now(), ownCPU()
	for _, row := range e.Entries {
		if err := c.engine.Apply(row); err != nil {
			return computed, applied, err
		}
	}
	return computed, cpuRound(1, start, cpu), nil
}
