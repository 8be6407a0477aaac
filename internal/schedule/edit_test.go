package schedule

import (
	"fmt"
	"testing"
)

// TestFoldingAnEditLaysADeploymentOutOnce however many steps the edit leaves out of it, so that the cost of folding an
// edit grows with its rows and not with their square.
func TestFoldingAnEditLaysADeploymentOutOnce(t *testing.T) {
	t.Parallel()
	const stages = 20
	d := Definition{Pipeline: "shop", Order: Runnable, Service: Service{Name: "shop"}}
	for i := range stages {
		s := hostStage(fmt.Sprintf("s%d", i), nil, group("all", fmt.Sprintf("a%d", i), fmt.Sprintf("b%d", i)))
		s.Queue = NoQueue
		d.Stages = append(d.Stages, s)
	}
	w := newWorld(t, d)
	w.create(1, 1)
	for range 3 { // the first host of each stage is replicated, deployed and tested
		for _, step := range w.decide().Work {
			w.done(step.StepKey)
		}
	}
	w.decide()
	next := clone(&d)
	for i := range next.Stages {
		next.Stages[i].Chain = chain(HostReplicated, HostDeployed, "host-warmed", HostTested)
	}
	before, rows := w.engine.trips[1].epoch, len(w.log)
	w.define(next)
	if got, want := len(w.log)-rows, 1+2*stages; got != want {
		t.Fatalf("the edit has %d rows, want %d: a step is introduced and left out in each stage", got, want)
	}
	if laid := w.engine.trips[1].epoch - before; laid != 1 {
		t.Errorf("the deployment was laid out %d times, want once", laid)
	}
}
