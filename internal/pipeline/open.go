package pipeline

import (
	"slices"
	"time"
)

// Open is a deployment's remaining work at one target and below it.
type Open struct {
	Target string
	Steps  int     // number of steps that are neither complete nor elided
	first  []int32 // a few of those steps, breadth-first
}

// Open counts the steps that a deployment has to do at each of some targets, and remembers the first most of each. Targets without
// such a step are left out, as are those that the deployment does not have. It costs a look at each step, however many targets
// there are, and no text: a fleet has a million steps where a page has room for fifty.
func (e *Engine) Open(number int64, targets []string, most int) []Open {
	t, ok := e.deployments[number]
	if !ok {
		return nil
	}
	c := newOpenCount(t.plan, targets, most)
	for _, steps := range c.spans() {
		for n := steps.from; n < steps.to; n++ {
			if !t.is(n, complete) && (t.is(n, excluded) || !t.isElided(n)) {
				c.add(n)
			}
		}
	}
	return slices.DeleteFunc(c.open, func(o Open) bool { return o.Steps == 0 })
}

// ExplainOpen returns the remembered steps of what Open has found of a deployment, each with its state and reason. The engine must
// not have applied a row since.
func (e *Engine) ExplainOpen(number int64, found []Open, now time.Time) [][]StepState {
	t, ok := e.deployments[number]
	if !ok || len(found) == 0 {
		return make([][]StepState, len(found))
	}
	x := e.explanationOf(t, now)
	lists := make([][]StepState, len(found))
	for i, open := range found {
		for _, n := range open.first {
			lists[i] = append(lists[i], x.step(n))
		}
	}
	return lists
}

// openCount counts open steps by the places of targets, which are places in open; -1: it was not asked for.
type openCount struct {
	plan                        *Graph
	most                        int
	open                        []Open
	all                         int32
	stages, groups, waves, host []int32
	asked                       []bool // by stage: whether something in it is requested
}

func newOpenCount(plan *Graph, targets []string, most int) *openCount {
	none := func(n int) []int32 { return slices.Repeat([]int32{-1}, n) }
	c := &openCount{plan: plan, most: most, all: -1, stages: none(len(plan.stages)), groups: none(len(plan.groups)),
		waves: none(len(plan.waves)),
		host:  none(len(plan.hosts)), asked: make([]bool, len(plan.stages))}
	for _, target := range targets {
		at, known := plan.targets[target]
		if !known {
			continue
		}
		if at.stage >= 0 {
			c.asked[at.stage] = true
		}
		*c.counter(at) = int32(len(c.open))
		c.open = append(c.open, Open{Target: target})
	}
	return c
}

// counter returns where a place's index is.
func (c *openCount) counter(at place) *int32 {
	switch {
	case at.host >= 0:
		return &c.host[at.host]
	case at.wave >= 0:
		return &c.waves[at.wave]
	case at.group >= 0:
		return &c.groups[at.group]
	case at.stage >= 0:
		return &c.stages[at.stage]
	}
	return &c.all
}

// spans lists the steps that may count: all of the pipeline, or those of the stages that are requested.
func (c *openCount) spans() (spans []span) {
	if c.all >= 0 {
		return []span{{0, int32(len(c.plan.nodes))}}
	}
	for s := range c.asked {
		if c.asked[s] {
			spans = append(spans, c.plan.stages[s].steps)
		}
	}
	return spans
}

// add counts a step at its place and at all places above.
func (c *openCount) add(n int32) {
	at := c.plan.nodes[n].place
	c.at(c.all, n)
	if at.stage >= 0 {
		c.at(c.stages[at.stage], n)
	}
	if at.group >= 0 {
		c.at(c.groups[at.group], n)
	}
	if at.wave >= 0 {
		c.at(c.waves[at.wave], n)
	}
	if at.host >= 0 {
		c.at(c.host[at.host], n)
	}
}

func (c *openCount) at(i, n int32) {
	if i < 0 {
		return
	}
	o, rank := &c.open[i], c.plan.rank
	o.Steps++
	place, _ := slices.BinarySearchFunc(o.first, rank[n], func(m, r int32) int { return int(rank[m] - r) })
	if place == c.most {
		return
	}
	if len(o.first) == c.most {
		o.first = o.first[:c.most-1]
	}
	o.first = slices.Insert(o.first, place, n)
}
