package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"

	"github.com/waybill-dev/waybill/internal/pipeline"
)

// inFlightHeapFlags declares the flags of in-flight-heap.
func inFlightHeapFlags(f *flag.FlagSet, o *Options) {
	o.Hosts = []int{10_000, 100_000}
	f.IntVar(&o.Deployments, "deployments", 100, "deployments that are active at the same time")
	f.Func("hosts", "hosts of the pipeline, in ten stages (default 10000,100000)", counts(&o.Hosts))
}

// inFlightHeap measures what active deployments take: the heap after a collection with every
// deployment, less that of the graph with none. One deployment works in the first stage, and the rest
// wait.
func inFlightHeap(_ context.Context, o Options) ([]Result, error) {
	const stages = 10
	results := make([]Result, len(o.Hosts))
	for i, hosts := range o.Hosts {
		for range o.Rounds {
			round, err := heapOf(fleet(stages, max(1, hosts/stages)), o.Deployments)
			if err != nil {
				return nil, err
			}
			results[i].Rounds = append(results[i].Rounds, round)
		}
		results[i].Bench, results[i].Unit = "in-flight-heap", "MB"
		results[i].Subject = fmt.Sprintf("%d deployments, %s hosts", o.Deployments, strings.TrimSuffix(grouped(float64(hosts)), ".00"))
		results[i].summarizeBy(func(r Round) float64 { return r.HeapMB })
	}
	return results, nil
}

// heapOf creates the deployments and has one pass start hosts. The engine is alive when the heap is
// read, since the pass after it needs it.
func heapOf(d pipeline.Definition, deployments int) (Round, error) {
	c, err := newCrew(d)
	if err != nil {
		return Round{}, err
	}
	graph := heapAfterCollection()
	for range deployments {
		err = errors.Join(err, c.create())
	}
	if err := errors.Join(err, c.pass(), c.end(len(c.live))); err != nil {
		return Round{}, err
	}
	heap := heapAfterCollection()
	return Round{Ops: deployments, HeapMB: float64(int64(heap)-int64(graph)) / 1e6}, c.pass()
}
