package pipeline

import "slices"

// crowd lists, for the stages of one graph, the active deployments that a row may concern besides
// its own. Without it each start of a host would look at every deployment in flight. Entries that
// are out of date are removed when a list is read.
type crowd struct {
	behind [][]*deployment // per stage: those that have not passed it, by rank
	within [][]*deployment // per stage: those that have started and not finished it
}

// enlist adds an active deployment to the lists of its graph, when it is created and whenever
// stages that it had passed may be open again.
func (e *Engine) enlist(t *deployment) {
	if t.status != StatusActive {
		return
	}
	c := e.crowds[t.plan]
	if c == nil {
		c = &crowd{make([][]*deployment, len(t.plan.stages)), make([][]*deployment, len(t.plan.stages))}
		e.crowds[t.plan] = c
	}
	for s := range t.plan.stages {
		if t.hasPassed(int32(s)) {
			continue
		}
		i, listed := slices.BinarySearchFunc(c.behind[s], t, compareRanks)
		if !listed {
			c.behind[s] = slices.Insert(c.behind[s], i, t)
		}
		c.enter(t, int32(s))
	}
}

// enter adds a deployment to those within a stage, if it is.
func (c *crowd) enter(t *deployment, stage int32) {
	if t.isWithin(stage) && !slices.Contains(c.within[stage], t) {
		c.within[stage] = append(c.within[stage], t)
	}
}

// hasPassed reports whether nothing of a stage is left to do. A finish that was walked through
// counts: the stage is then elided, and no step of it will run.
func (t *deployment) hasPassed(stage int32) bool {
	return t.is(t.plan.stages[stage].finished, resolved)
}

// isWithin reports whether a deployment has come past the start of a stage and not past its finish.
// A catch-up, or a rollback of one host, has neither of the two as a step of its own.
func (t *deployment) isWithin(stage int32) bool {
	s := &t.plan.stages[stage]
	return t.is(s.started, resolved) && !t.is(s.finished, resolved)
}

// behind lists the active deployments of lower rank than t that have steps left on a resource, in
// the order of a pass.
func (e *Engine) behind(t *deployment, resource int32) []*deployment {
	if e.active[0] == t && t.undoes == nil { // rollbacks come first there, whatever their rank
		return nil
	}
	var list []*deployment
	for plan, c := range e.crowds { // in any order, since the list is sorted
		stages := e.ids(plan).environmentsOn(resource)
		for _, h := range e.ids(plan).hostsOn(resource) {
			stages = append(stages, plan.hosts[h].stage)
		}
		for _, s := range stages {
			for _, other := range c.lower(plan, s, t) {
				if !slices.Contains(list, other) && other.hasStepsOn(resource) {
					list = append(list, other)
				}
			}
		}
	}
	slices.SortFunc(list, comparePass)
	return list
}

// lower returns the deployments of lower rank than t that have not passed a stage of the graph.
func (c *crowd) lower(plan *Graph, stage int32, t *deployment) []*deployment {
	list := c.behind[stage]
	kept, i := 0, 0
	for ; i < len(list) && list[i].isOlder(t); i++ {
		if other := list[i]; other.plan == plan && other.status == StatusActive && !other.hasPassed(stage) {
			list[kept] = other
			kept++
		}
	}
	if kept < i {
		c.behind[stage] = slices.Delete(list, kept, i)
	}
	return list[:kept]
}

// inside returns the deployments within a stage of the graph. Those that have left it are removed
// here, and not when they leave: rows of many kinds may end that a deployment is inside.
func (c *crowd) inside(plan *Graph, stage int32) []*deployment {
	c.within[stage] = slices.DeleteFunc(c.within[stage], func(t *deployment) bool {
		return t.plan != plan || t.status != StatusActive || !t.isWithin(stage)
	})
	return c.within[stage]
}

// disperse forgets the lists of graphs that no active deployment is on any more.
func (e *Engine) disperse() {
	used := map[*Graph]bool{}
	for _, t := range e.active {
		used[t.plan] = true
	}
	for plan := range e.crowds {
		if !used[plan] {
			delete(e.crowds, plan)
		}
	}
}

// countHold counts the batches that a deployment holds in a stage, its own and those of its hosts.
// So eachHostHeld need not look at the hosts of a stage in which a deployment holds none.
func (e *Engine) countHold(t *deployment, id, change int32) {
	stage := e.numbers.stages[id]
	if stage < 0 {
		return
	}
	counts := e.holding[stage]
	if counts == nil {
		counts = map[*deployment]int32{}
		e.holding[stage] = counts
	}
	if counts[t] += change; counts[t] == 0 {
		delete(counts, t)
	}
}

// holdersIn lists the deployments that may hold something in the region of a batch over stages, in
// any order.
func (e *Engine) holdersIn(id int32) map[*deployment]bool {
	list := map[*deployment]bool{}
	stage := e.numbers.stages[id]
	for plan := range e.crowds {
		if len(plan.ranges) > 0 {
			stage = -1
		}
	}
	if stage >= 0 {
		for t := range e.holding[stage] {
			list[t] = true
		}
		return list
	}
	for _, counts := range e.holding { // regions of several stages: look at every holder
		for t := range counts {
			list[t] = true
		}
	}
	for _, t := range e.order {
		if len(t.holds) > 0 {
			list[t] = true
		}
	}
	return list
}
