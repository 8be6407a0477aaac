package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/pipeline"
)

// engineFlags declares the flags of engine.
func engineFlags(f *flag.FlagSet, o *Options) {
	o.Hosts = []int{1_000, 10_000, 100_000}
	f.IntVar(&o.Stages, "stages", 1, "stages of the pipeline, one behind another")
	f.Func("hosts", "hosts of each stage (default 1000,10000,100000)", counts(&o.Hosts))
	f.IntVar(&o.Deployments, "deployments", 1, "deployments that go through it, all created at once")
	f.Func("in-flight", "measure passes after one end each beside so many deployments, such as 10,100,1000", counts(&o.InFlight))
}

// counts reads a list of numbers such as 10,100,1000.
func counts(to *[]int) func(string) error {
	return func(list string) error {
		*to = nil
		for _, text := range strings.Split(list, ",") {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 || n > 1_000_000 {
				return errors.New("want numbers up to 1000000, such as 10,100")
			}
			*to = append(*to, n)
		}
		return nil
	}
}

// engine measures the scheduler alone, in memory. Every action ends at once, and a pass follows the
// ends of the pass before it; with --in-flight a pass follows each single end.
func engine(_ context.Context, o Options) ([]Result, error) {
	if len(o.InFlight) > 0 {
		return rounds(o, o.InFlight, passCost, "deployments in flight", "rows/CPU s")
	}
	return rounds(o, o.Hosts, throughStages, "hosts in each stage", "rows/CPU s")
}

// rounds measures each size of a subject in every round, in turn.
func rounds(o Options, sizes []int, measure func(Options, int) (Round, error), what, unit string) ([]Result, error) {
	results := make([]Result, len(sizes))
	for range o.Rounds {
		for i, size := range sizes {
			round, err := measure(o, size)
			if err != nil {
				return nil, err
			}
			results[i].Rounds = append(results[i].Rounds, round)
		}
	}
	for i, size := range sizes {
		results[i].Bench, results[i].Unit, results[i].Subject = "engine", unit, fmt.Sprintf("%s %s",
			strings.TrimSuffix(grouped(float64(size)), ".00"), what)
		r := &results[i]
		r.summarize()
		if heap := r.middle(func(r Round) float64 { return r.HeapMB }); heap > 0 {
			r.Subject += fmt.Sprintf(", heap %s MB", grouped(heap))
		}
		if p99 := r.middle(func(r Round) float64 { return r.P99 }); p99 > 0 {
			r.Subject += fmt.Sprintf(", pass p50 %.3f ms, p99 %.3f ms", r.middle(func(r Round) float64 { return r.P50 }), p99)
		}
	}
	return results, nil
}

// throughStages takes deployments to their end and counts the rows. Its heap is the largest after
// collections at the beginning and at each quarter of the deployments.
func throughStages(o Options, hosts int) (Round, error) {
	c, err := newCrew(fleet(o.Stages, hosts))
	if err != nil {
		return Round{}, err
	}
	for range o.Deployments {
		if err := c.create(); err != nil {
			return Round{}, err
		}
	}
	var heap uint64
	quarter := c.engine.Seq()
	start, cpu := time.Now(), ownCPU()
	for work := true; work; {
		if err := c.pass(); err != nil {
			return Round{}, err
		}
		work = len(c.live) > 0
		if err := c.end(len(c.live)); err != nil {
			return Round{}, err
		}
		// Each host has six rows.
		if c.engine.Seq() >= quarter {
			quarter += int64(1 + o.Deployments*o.Stages*hosts*6/4)
			heap = max(heap, heapAfterCollection())
		}
	}
	round := cpuRound(int(c.engine.Seq()), start, cpu)
	heap = max(heap, heapAfterCollection())
	round.HeapMB = float64(heap) / 1e6
	for _, d := range c.engine.Deployments(false) {
		if d.Status != pipeline.StatusFinished {
			return Round{}, fmt.Errorf("fleet of %d hosts: deployment %d is %s, not finished", hosts, d.Deployment, d.Status)
		}
	}
	return round, nil
}

// passCost measures passes after one end each, with so many deployments in flight through 50 stages
// of 20 hosts. A deployment that ends is replaced by a new one. Operations are rows.
func passCost(_ Options, inFlight int) (Round, error) {
	const passes = 5_000
	c, err := newCrew(fleet(50, 20))
	if err != nil {
		return Round{}, err
	}
	step := func() error {
		for len(c.engine.Deployments(true)) < inFlight {
			if err := c.create(); err != nil {
				return err
			}
		}
		return nil
	}
	if err := step(); err != nil {
		return Round{}, err
	}
	for range 500 { // enough to have deployments in many stages
		if err := errors.Join(c.pass(), c.end(len(c.live))); err != nil {
			return Round{}, err
		}
	}
	if err := errors.Join(step(), c.pass()); err != nil {
		return Round{}, err
	}
	took := make([]time.Duration, 0, passes)
	before, start, cpu := c.engine.Seq(), time.Now(), ownCPU()
	for range passes {
		begin := time.Now()
		if err := errors.Join(c.end(1), c.pass()); err != nil {
			return Round{}, err
		}
		took = append(took, time.Since(begin))
	}
	round := cpuRound(int(c.engine.Seq()-before), start, cpu)
	slices.Sort(took)
	round.P50, round.P99 = milliseconds(took[len(took)/2]), milliseconds(took[len(took)*99/100])
	return round, nil
}

// milliseconds returns a duration as reports have it.
func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// cpuRound makes a round whose rate is by CPU time, which neighbours on the machine do not change
// much. The CPU time includes the collector's.
func cpuRound(ops int, since time.Time, cpu time.Duration) Round {
	used := ownCPU() - cpu
	round := measured(ops, since)
	round.PerSecond, round.ClientCPU = float64(ops)/used.Seconds(), float64(used.Microseconds())/float64(ops)
	return round
}

// heapAfterCollection returns the bytes that are in use.
func heapAfterCollection() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// crew drives an engine: it creates deployments, makes passes and ends actions.
type crew struct {
	engine  *pipeline.Engine
	plan    *pipeline.Graph
	version int
	created int64
	now     time.Time
	live    []pipeline.Work
	keep    bool // keep the rows
	rows    []pipeline.Entry
}

// newCrew returns a crew whose engine has the definition in force.
func newCrew(d pipeline.Definition) (*crew, error) {
	plan, problems := pipeline.Compile(d)
	if err := problems.Err(); err != nil {
		return nil, err
	}
	c := &crew{engine: pipeline.New("fleet"), plan: plan, version: 1, now: time.Now()}
	c.engine.AddVersion(1, plan)
	return c, c.apply(pipeline.Entry{Target: "fleet", Event: pipeline.PipelineDefined, Class: pipeline.Change})
}

// apply completes a row and applies it.
func (c *crew) apply(row pipeline.Entry) error {
	row.Pipeline, row.Seq, row.At, row.Version = "fleet", c.engine.Seq()+1, c.now, c.version
	if c.keep {
		c.rows = append(c.rows, row)
	}
	return c.engine.Apply(row)
}

func (c *crew) create() error {
	c.created++
	return c.apply(pipeline.Entry{Target: "fleet", Event: pipeline.DeploymentCreated, Class: pipeline.Note,
		Deployment: c.created, Revision: c.created, Occurrence: 1})
}

// pass makes passes until one has nothing to decide, as a deployer does.
func (c *crew) pass() error {
	for {
		d, err := c.engine.Decide(c.now, 2_000)
		if err != nil {
			return err
		}
		c.live = append(c.live, d.Work...)
		if c.keep {
			c.rows = append(c.rows, d.Entries...)
		}
		if !d.More {
			return nil
		}
	}
}

// end ends the oldest live actions.
func (c *crew) end(n int) error {
	for _, w := range c.live[:n] {
		if err := c.apply(pipeline.Entry{Deployment: w.Deployment, Target: w.Target, Event: w.Event, Class: pipeline.Fact,
			Revision: w.Revision}); err != nil {
			return err
		}
	}
	c.live = slices.Delete(c.live, 0, n)
	return nil
}

// fleet returns a pipeline of stages one behind another, each with one group of so many hosts, of
// which a quarter may be in flight.
func fleet(stages, hosts int) pipeline.Definition {
	d := pipeline.Definition{Pipeline: "fleet", Order: pipeline.Runnable, Service: pipeline.Service{Name: "fleet", Manager: "none"}}
	for s := range stages {
		d.Stages = append(d.Stages, fleetStage(fmt.Sprintf("s%02d", s), hosts))
		if s > 0 {
			d.Stages[s].After = []string{d.Stages[s-1].Name}
		}
	}
	return d
}

func fleetStage(name string, hosts int) pipeline.Stage {
	group := pipeline.Group{Name: "all", MaxParallel: pipeline.Limit{N: 25, Percent: true}}
	for i := range hosts {
		group.Hosts = append(group.Hosts, fleetHost(fmt.Sprintf("%sh%06d", name, i)))
	}
	return pipeline.Stage{
		Name: name, Kind: pipeline.HostStage, After: []string{}, Groups: []pipeline.Group{group},
		Queue: pipeline.FIFO, OnFailure: pipeline.Release,
		Chain: []pipeline.Step{
			{Name: pipeline.Replicate, Event: pipeline.HostReplicated},
			{Name: pipeline.Deploy, Event: pipeline.HostDeployed},
		},
	}
}

func fleetHost(name string) pipeline.Host { return pipeline.Host{Name: name, URL: "local://" + name} }
