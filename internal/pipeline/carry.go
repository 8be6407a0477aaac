package pipeline

// The states of a stage's steps follow from three things: the log's facts about these steps, whether everything
// before the stage is resolved, and whether anything behind it is complete or claimed. So a stage that has the same
// steps after an edit, and of which the two other answers are the same, is copied. Each answer is one bit per stage:
// what is before arrives through the stage's start alone, and what is behind leaves through its finish alone.
//
// Stages are taken in their order, since the answer about what is before a stage depends on the
// stages there; the answer about what is behind it needs the log only, and is found in a turn of
// its own before. Of the pipeline's start and end, which are in no stage, the same is computed one
// by one.

// carried is the walk that a deployment has on another graph. Stages that an edit leaves alone keep
// what the walk knew of their steps.
type carried struct {
	*walk
	again []int32 // stages of the graph whose steps were computed again
	// reached has, per stage of the graph, whether a step of it or behind it is complete or
	// claimed.
	reached []bool
}

// walkOn returns the walk that a deployment would have on another graph. more are exclusions that an edit would add.
// Without any, an edit asks several times, and gets the same walk, which it must not change. With some, each question
// is another, so these walks are not kept.
func (e *Engine) walkOn(t *deployment, next *Graph, more ...exclusion) carried {
	if len(more) > 0 {
		return e.carry(t, next, more)
	}
	if w, ok := e.walks[t]; ok && w.g == &next.graph {
		return w
	}
	w := e.carry(t, next, nil)
	if e.walks != nil {
		e.walks[t] = w
	}
	return w
}

// carry computes the walk of a deployment on another graph. It is what newWalk would return, but
// costs what the edit touches: the states of all other steps are copied, stage by stage.
func (e *Engine) carry(t *deployment, next *Graph, more []exclusion) carried {
	c := &carrying{e: e, t: t, next: next, m: e.movesTo(t.plan, next), again: make([]bool, len(next.stages)), more: more,
		has: make([]bool, len(next.stages)), after: make([]bool, len(next.stages))}
	c.w = &walk{g: &next.graph, step: make([]bits, len(next.nodes)), wait: make([]int32, len(next.graph.in)),
		done: t.done, elided: t.elided, passed: t.passed}
	c.known()
	c.ahead()
	c.root()
	for _, s := range next.sequence {
		c.stage(s)
	}
	c.end()
	return c.finish()
}

// carrying is the state of carry.
type carrying struct {
	e    *Engine
	t    *deployment
	next *Graph
	m    *moves
	w    *walk
	more []exclusion
	// Per stage of the next graph: whether its steps are computed again, whether one is complete
	// or claimed, and whether one behind the stage is.
	again, has, after []bool
}

// known marks the log's facts about the steps of stages that are computed again in any case: those that the edit
// touches, and those with more exclusions.
func (c *carrying) known() {
	for s, was := range c.m.stage {
		c.again[s] = was < 0
	}
	for _, x := range c.more {
		if at, ok := c.next.targets[x.target]; ok && at.stage >= 0 {
			c.again[at.stage] = true
		} else if ok {
			for s := range c.again {
				c.again[s] = true
			}
		}
	}
	for s, again := range c.again {
		if again {
			c.recall(int32(s))
		}
	}
	for name := range c.t.away {
		c.mark(name, complete)
	}
	for _, l := range c.t.live {
		c.mark(l.name, claimed)
	}
	for _, list := range [][]exclusion{c.t.exclusions, c.t.impliedExclusions(c.next), c.more} {
		for _, x := range list {
			c.exclude(x)
		}
	}
}

// recall takes over the log's facts about the steps of one stage: of the same steps all, otherwise completed steps.
func (c *carrying) recall(s int32) {
	steps := c.next.stages[s].steps
	for n := steps.from; n < steps.to; n++ {
		if was := c.m.back[n]; was >= 0 && c.t.is(was, complete) {
			c.w.step[n] = complete
		}
	}
}

// mark marks a step of a stage that is computed again. A complete step keeps only that bit.
func (c *carrying) mark(name stepName, b bits) {
	n := c.next.find(name.target, name.event)
	if n < 0 || c.w.step[n]&complete != 0 {
		return
	}
	if s := c.next.nodes[n].stage; s < 0 || c.again[s] {
		c.w.step[n] |= b
	}
}

// exclude marks the steps of an exclusion, of stages that are computed again.
func (c *carrying) exclude(x exclusion) {
	at, ok := c.next.targets[x.target]
	if !ok || at.stage >= 0 && !c.again[at.stage] {
		return
	}
	for _, n := range c.e.excludedBy(c.next, x) {
		if s := c.next.nodes[n].stage; s < 0 || c.again[s] {
			c.w.step[n] |= excluded
		}
	}
}

// ahead finds, from the last stage to the first, where something is complete or claimed, and behind
// which stages something is.
func (c *carrying) ahead() {
	ended := c.t.is(c.t.plan.end, complete)
	for i := len(c.next.sequence) - 1; i >= 0; i-- {
		s := c.next.sequence[i]
		stage := &c.next.stages[s]
		c.has[s] = c.isBegun(s)
		c.after[s] = len(stage.after) == 0 && ended
		for _, behind := range stage.after {
			c.after[s] = c.after[s] || c.has[behind] || c.after[behind]
		}
	}
}

// isBegun reports whether a step of a stage is complete or claimed. Of a stage that the edit leaves
// alone its start nearly always answers: if it is neither, and nothing behind it is, then no step
// of the stage is, as all are behind it.
func (c *carrying) isBegun(s int32) bool {
	stage, was, list := &c.next.stages[s], c.m.stage[s], c.w.step
	steps := stage.steps
	if !c.again[s] {
		steps, list = c.t.plan.stages[was].steps, c.t.step
		switch start := list[c.t.plan.stages[was].started]; {
		case start&(complete|claimed) != 0:
			return true
		case start&overtaken == 0: // nothing behind the start is complete or claimed
			return false
		}
	}
	for _, b := range list[steps.from:steps.to] {
		if b&(complete|claimed) != 0 {
			return true
		}
	}
	return false
}

// root computes the start of the pipeline. Nothing is before it, so it is entered in any case.
func (c *carrying) root() {
	b := c.w.step[0] | entered
	if c.t.is(0, complete) {
		b = complete | entered
	}
	begun := c.t.is(c.t.plan.end, complete)
	for s := range c.has {
		begun = begun || c.has[s]
	}
	if begun {
		b |= overtaken
	}
	if b&(complete|excluded|overtaken) != 0 {
		b |= resolved
	}
	c.w.step[0] = b
}

// unresolved returns how many of some stages are not wholly resolved on the next graph. Of none it
// is the start of the pipeline that counts.
func (c *carrying) unresolved(stages []int32) int32 {
	if len(stages) == 0 && !c.w.is(0, resolved) {
		return 1
	}
	count := int32(0)
	for _, s := range stages {
		if !c.w.is(c.next.stages[s].finished, resolved) {
			count++
		}
	}
	return count
}

// stage copies or computes the steps of one stage. All stages before it have been.
func (c *carrying) stage(s int32) {
	stage := &c.next.stages[s]
	wait := c.unresolved(stage.before)
	if !c.again[s] {
		was := &c.t.plan.stages[c.m.stage[s]]
		// The bits of the start and the finish are the two answers that the walk had for the stage.
		if c.t.is(was.started, entered) == (wait == 0) && c.t.is(was.finished, overtaken) == c.after[s] {
			c.copy(was, stage)
		} else {
			c.again[s] = true
			for i, b := range c.t.step[was.steps.from:was.steps.to] {
				c.w.step[stage.steps.from+int32(i)] |= b & fromLog
			}
		}
	}
	if c.again[s] {
		if wait > 0 || !c.after[s] { // else no step of the stage waits
			copy(c.w.wait[stage.joins.from:stage.joins.to], c.next.graph.in[stage.joins.from:stage.joins.to])
		}
		c.w.within(stage.steps, stage.started, wait == 0, c.after[s])
	}
	if j := c.next.graph.join[stage.started]; j >= 0 {
		c.w.wait[j] = wait
	}
}

// copy takes over all that the walk knows of a stage. Its steps are not in the queue of the other
// graph.
func (c *carrying) copy(was, stage *stagePlan) {
	steps := c.w.step[stage.steps.from:stage.steps.to]
	copy(steps, c.t.step[was.steps.from:was.steps.to])
	if c.t.isOpen(was) {
		for n := range steps {
			steps[n] &^= queued
		}
	}
	copy(c.w.wait[stage.joins.from:stage.joins.to], c.t.wait[was.joins.from:was.joins.to])
}

// end computes the end of the pipeline. Nothing is behind it, so it is never elided by later work,
// only by an exclusion.
func (c *carrying) end() {
	end := c.next.end
	var last []int32
	for s := range c.next.stages {
		if len(c.next.stages[s].after) == 0 {
			last = append(last, int32(s))
		}
	}
	wait := c.unresolved(last)
	b := c.w.step[end]
	if c.t.is(c.t.plan.end, complete) {
		b = complete | resolved
	}
	if wait == 0 {
		b |= entered
		if b&excluded != 0 {
			b |= resolved
		}
	}
	c.w.step[end] = b
	if j := c.next.graph.join[end]; j >= 0 {
		c.w.wait[j] = wait
	}
}

// finish counts the steps and finds those that are doable. The counts are those of the walk before,
// without the stages that left or were computed again, and with what these are now: counting all
// steps would cost as much as computing them.
func (c *carrying) finish() carried {
	w, t := c.w, c.t
	w.done, w.elided, w.passed, w.fresh, w.pending, w.epoch = t.done, t.elided, t.passed, nil, nil, 1
	for _, s := range c.m.touched {
		w.tally(t.step, t.plan.stages[s].steps, -1)
	}
	w.tally(t.step, span{0, 1}, -1)
	w.tally(t.step, span{t.plan.end, t.plan.end + 1}, -1)
	w.tally(w.step, span{0, 1}, 1)
	w.tally(w.step, span{c.next.end, c.next.end + 1}, 1)
	for name := range t.failures {
		if n := c.next.find(name.target, name.event); n >= 0 && !w.is(n, complete) {
			w.step[n] |= failed
		}
	}
	w.offer(0)
	result := carried{walk: w, reached: c.has}
	for s := range c.next.stages {
		stage := &c.next.stages[s]
		c.has[s] = c.has[s] || c.after[s]
		if c.again[s] {
			result.again = append(result.again, int32(s))
			if was := c.m.stage[s]; was >= 0 {
				w.tally(t.step, t.plan.stages[was].steps, -1)
			}
			w.tally(w.step, stage.steps, 1)
		}
		if w.isOpen(stage) {
			for n := stage.steps.from; n < stage.steps.to; n++ {
				w.offer(n)
			}
		}
	}
	w.offer(c.next.end)
	return result
}
