package pipeline

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// compareOpen checks that what is open at each target is what the explanations of all steps say.
func (p *program) compareOpen(number int64) {
	p.Helper()
	const most = 2
	all := p.engine.Explain(number, p.now)
	plan := p.engine.deployments[number].plan
	var targets []string
	for path := range plan.targets {
		targets = append(targets, path)
	}
	counts, first := map[string]int{}, map[string][]StepState{}
	for _, step := range all {
		if step.State == StateComplete || step.State == StateElided {
			continue
		}
		for above := step.Target; above != ""; above = above[:max(strings.LastIndexByte(above, '/'), 0)] {
			if counts[above]++; counts[above] <= most {
				first[above] = append(first[above], step)
			}
		}
	}
	found := p.engine.Open(number, append(targets, "shop/of/another"), most)
	for i, steps := range p.engine.ExplainOpen(number, found, p.now) {
		target := found[i].Target
		if found[i].Steps != counts[target] || !cmp.Equal(steps, first[target]) {
			p.fatal("#%d has %d open steps at %s, first %v; want %d, %v", number, found[i].Steps, target, steps, counts[target], first[target])
		}
		delete(counts, target)
	}
	if len(counts) > 0 {
		p.fatal("#%d has open steps at %v too", number, counts)
	}
}

// TestOpenMakesNoTextOfStepsThatAreNotListed: a page of targets costs no text for each step of a fleet.
func TestOpenMakesNoTextOfStepsThatAreNotListed(t *testing.T) {
	const hosts = 5_000
	g := Group{Name: "all", MaxParallel: Limit{N: 1}}
	for i := range hosts {
		g.Hosts = append(g.Hosts, host(fmt.Sprintf("h%d", i)))
	}
	e := New("shop")
	e.AddVersion(1, compiled(t, Definition{Pipeline: "shop", Stages: []Stage{hostStage("prod", nil, g)}}))
	for i, row := range []Entry{{Event: PipelineDefined, Class: Change, Version: 1}, {Deployment: 1, Event: DeploymentCreated, Class: Note}} {
		row.Pipeline, row.Seq = "shop", int64(i+1)
		if err := e.Apply(row); err != nil {
			t.Fatal(err)
		}
	}
	allocated := testing.AllocsPerRun(1, func() {
		found := e.Open(1, []string{"shop", "shop/prod/all/h7"}, 1)
		if len(found) != 2 || found[0].Steps < 2*hosts || len(e.ExplainOpen(1, found, noon)) != 2 {
			t.Errorf("found %+v", found)
		}
	})
	if allocated > 200 {
		t.Errorf("%.0f allocations for two of %d hosts", allocated, hosts)
	}
}
