package pipeline

import (
	"slices"
	"strings"
	"time"
)

// batchID names a batch across versions: the path of its host or stage, or the
// name of its range, which has no slash.
type batchID string

// isHost reports whether the batch is a host: pipeline/stage/group/host has three slashes.
func (id batchID) isHost() bool { return strings.Count(string(id), "/") == 3 }

// batch is one pair of steps (open, close) of a graph and the region between them. At most one
// deployment holds a batch, and only the holder claims steps of the region.
type batch struct {
	id          batchID
	open, close int32
	host        int32   // the host, if the batch is one; -1 otherwise
	stages      []int32 // the stages of the region; for a host its stage
	queue       Queue
}

// holding is the deployment that holds a batch, and since when.
type holding struct {
	deployment *deployment
	since      time.Time
}

// placeBatches computes the regions of batches over several stages. Compile has refused definitions
// whose regions overlap without nesting, so sorting by size puts inner ranges before outer ones.
func (p *Graph) placeBatches() {
	index := map[string]int{}
	for i := range p.def.Stages {
		index[p.def.Stages[i].Name] = i
	}
	for _, b := range p.def.Batches {
		first, last := index[b.Stages[0]], index[b.Stages[len(b.Stages)-1]]
		p.ranges = append(p.ranges, rangePlan{
			name: b.Name, id: batchID(b.Name), queue: b.Queue, stages: p.def.region(first, last),
			open: p.stages[first].started, close: p.stages[last].finished,
		})
	}
	slices.SortStableFunc(p.ranges, func(a, b rangePlan) int { return len(a.stages) - len(b.stages) })
	for i := range p.stages {
		p.stages[i].scope = []int32{int32(i)}
	}
	for r := range p.ranges {
		for _, s := range p.ranges[r].stages {
			stage := &p.stages[s]
			stage.ranges = append(stage.ranges, int32(r))
			stage.scope = p.ranges[r].stages // the outermost comes last and contains the rest
		}
	}
}

// around lists the batches whose region has the step in it, innermost first.
func (p *Graph) around(n int32) []batch {
	at := &p.nodes[n]
	if at.stage < 0 {
		return nil
	}
	list := make([]batch, 0, 3)
	if at.host >= 0 {
		list = append(list, p.hostBatch(at.host))
	}
	if p.stages[at.stage].locked {
		list = append(list, p.stageBatch(at.stage))
	}
	for _, r := range p.stages[at.stage].ranges {
		list = append(list, p.rangeBatch(r))
	}
	return list
}

// hostBatch returns the batch of a host, whose queue is always FIFO.
func (p *Graph) hostBatch(h int32) batch {
	host := &p.hosts[h]
	return batch{id: batchID(host.path), open: host.started(), close: host.finished(), host: h, stages: []int32{host.stage}, queue: FIFO}
}

func (p *Graph) stageBatch(s int32) batch {
	stage := &p.stages[s]
	return batch{id: batchID(stage.path), open: stage.started, close: stage.finished, host: -1, stages: []int32{s}, queue: p.def.Stages[s].Queue}
}

func (p *Graph) rangeBatch(r int32) batch {
	b := &p.ranges[r]
	return batch{id: b.id, open: b.open, close: b.close, host: -1, stages: b.stages, queue: b.queue}
}

// batch returns the batch with the id, and false if this version lacks it.
func (p *Graph) batch(id batchID) (batch, bool) {
	if !strings.Contains(string(id), "/") {
		for r := range p.ranges {
			if p.ranges[r].id == id {
				return p.rangeBatch(int32(r)), true
			}
		}
		return batch{}, false
	}
	at, ok := p.targets[string(id)]
	switch {
	case !ok:
		return batch{}, false
	case at.host >= 0:
		return p.hostBatch(at.host), true
	case at.group < 0 && at.stage >= 0 && p.stages[at.stage].locked:
		return p.stageBatch(at.stage), true
	}
	return batch{}, false
}

// acquire gives the free batches around a step to the deployment that claims or completes it. A
// step that was already live may complete although an edit has given the batch to another
// deployment.
func (e *Engine) acquire(t *deployment, n int32, at time.Time) error {
	for _, b := range t.plan.around(n) {
		h, ok := e.holder[b.id]
		switch {
		case !ok:
			e.takeBatch(t, b.id, at)
		case h.deployment != t && !t.live.has(t.plan, n):
			return e.violation("I1", "%s takes %s in batch %s, which %s holds", e.label(t), t.plan.name(n), b.id, e.label(h.deployment))
		}
	}
	return nil
}

// settle releases those batches around a step that can be released after a row about the step.
func (e *Engine) settle(t *deployment, n int32) {
	for _, b := range t.plan.around(n) {
		if t.holds[b.id] && e.mayRelease(t, b) {
			e.release(t, b)
		}
	}
}

// settleAll settles every batch of a deployment, after a change that concerns more than one step.
func (e *Engine) settleAll(t *deployment) {
	for _, id := range sortedKeys(t.holds) {
		b, ok := t.plan.batch(id)
		switch {
		case !t.holds[id]: // it was released with a batch around it
		case !ok: // a removed region has no waiters; if it returns, reassign finds the deployment inside
			e.freeBatch(t, id)
		case ok && e.mayRelease(t, b):
			e.release(t, b)
		}
	}
}

// mayRelease reports whether t has passed the batch, ended, or failed inside it under `release`,
// and has no live action there. Drained comes first: two deployments must never work in one region
// (I1). A deployment that an edit locked out of the enclosing region also releases the batches
// inside it. Otherwise it and the new holder would wait for each other.
func (e *Engine) mayRelease(t *deployment, b batch) bool {
	if t.liveIn(b) > 0 {
		return false
	}
	switch t.status {
	case StatusSuperseded, StatusCanceled, StatusFinished:
		return true
	}
	return t.is(b.close, resolved) || t.failedInside(b, Release) || e.isLockedOut(t, b)
}

// isLockedOut reports whether another deployment holds a batch around b. around lists the batches
// from the inside to the outside, so only those after b count.
func (e *Engine) isLockedOut(t *deployment, b batch) bool {
	outside := false
	for _, around := range t.plan.around(b.open) {
		if h, held := e.holder[around.id]; outside && held && h.deployment != t {
			return true
		}
		outside = outside || around.id == b.id
	}
	return false
}

// release frees a batch and every batch nested in it that the same deployment holds.
func (e *Engine) release(t *deployment, b batch) {
	e.freeBatch(t, b.id)
	if b.host >= 0 {
		return
	}
	for _, id := range sortedKeys(t.holds) {
		if inner, ok := t.plan.batch(id); ok && nested(inner, b) {
			e.freeBatch(t, id)
		}
	}
}

// nested reports whether inner is within outer. A host is within any batch that has its stage; a
// range is not within a smaller one.
func nested(inner, outer batch) bool {
	for _, s := range inner.stages {
		if !slices.Contains(outer.stages, s) {
			return false
		}
	}
	return inner.host >= 0 || len(inner.stages) <= len(outer.stages)
}

// takeBatch makes t the holder of a batch. Who holds a host decides whether it is in flight, so the
// hosts in the region are counted again.
func (e *Engine) takeBatch(t *deployment, id batchID, at time.Time) {
	e.holder[id] = holding{t, at}
	t.holds[id] = true
	e.recountFlightAround(id)
}

// freeBatch releases a batch, and has the pass look again at what was blocked.
func (e *Engine) freeBatch(t *deployment, id batchID) {
	delete(e.holder, id)
	delete(t.holds, id)
	e.freed = true
	e.recountFlightAround(id)
}

// reassign gives every batch whose region an edit made or changed to the oldest deployment inside
// it. Younger deployments inside finish what is live and then wait: without the edit they would
// have been outside. Outer regions come first, since their holders decide who is locked out.
func (e *Engine) reassign(old, next *Graph, inside []*deployment, at time.Time) {
	for id, h := range e.holder {
		// A closed deployment does not follow the edit, but nothing may hold a region that is gone.
		if _, stays := next.batch(id); !stays && h.deployment.closed {
			e.freeBatch(h.deployment, id)
		}
	}
	for _, b := range changedRegions(old, next) {
		h, held := e.holder[b.id]
		first := e.oldestInside(b.id, inside)
		if first == nil || first == h.deployment {
			continue
		}
		if held {
			e.freeBatch(h.deployment, b.id)
		}
		e.takeBatch(first, b.id, at)
	}
	for _, t := range inside {
		e.settleAll(t)
	}
}

// changedRegions lists the batches of next that old lacked or that had other stages there,
// outermost first.
func changedRegions(old, next *Graph) []batch {
	var list []batch
	add := func(b batch) {
		was, ok := old.batch(b.id)
		if !ok || !slices.Equal(old.stagePaths(was.stages), next.stagePaths(b.stages)) {
			list = append(list, b)
		}
	}
	for r := len(next.ranges) - 1; r >= 0; r-- {
		add(next.rangeBatch(int32(r)))
	}
	for s := range next.stages {
		if next.stages[s].locked {
			add(next.stageBatch(int32(s)))
		}
	}
	for h := range next.hosts {
		if _, ok := old.targets[next.hosts[h].path]; !ok {
			add(next.hostBatch(int32(h)))
		}
	}
	return list
}

// stagePaths returns the sorted paths of stages, by which regions of two versions are compared: a
// stage's number differs from version to version.
func (p *Graph) stagePaths(stages []int32) []string {
	paths := make([]string, len(stages))
	for i, s := range stages {
		paths[i] = p.stages[s].path
	}
	slices.Sort(paths)
	return paths
}

// oldestInside returns the deployment of lowest rank with something complete or claimed in a region
// that it has not passed; the present holder counts, and so does one that failed inside under
// `hold`.
func (e *Engine) oldestInside(id batchID, inside []*deployment) *deployment {
	var oldest *deployment
	if h, ok := e.holder[id]; ok {
		oldest = h.deployment
	}
	for _, t := range inside {
		b, ok := t.plan.batch(id)
		if ok && t.isInside(b) && !e.mayRelease(t, b) && (oldest == nil || t.number < oldest.number) {
			oldest = t
		}
	}
	return oldest
}

// isInside reports whether some step of the region is complete or claimed.
func (t *deployment) isInside(b batch) bool {
	if b.host >= 0 {
		return t.is(b.open, complete|claimed)
	}
	for _, s := range b.stages {
		for _, n := range t.plan.below(place{s, -1, -1}) {
			if t.is(n, complete|claimed) {
				return true
			}
		}
	}
	return false
}
