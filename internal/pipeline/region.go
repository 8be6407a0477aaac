package pipeline

import (
	"slices"
	"strings"
	"time"
)

// batchID names a batch across versions: the path of its host or stage, or the
// name of its range, which has no slash. The log has no rows about batches, so ids are not stored.
// Who holds a batch follows from the claims and facts.
type batchID string

// isHost reports whether the batch is a host: pipeline/stage/group/host has three slashes.
func (id batchID) isHost() bool { return strings.Count(string(id), "/") == 3 }

// batch is one pair of steps (open, close) of a graph and the region between them. At most one
// deployment holds a batch, and only the holder claims steps of the region (I1). A batch is a value
// made from a graph when it is needed; the holder is kept by its id.
type batch struct {
	id          batchID
	open, close int32   // the region's only entry and only exit
	host        int32   // the host, if the batch is one; -1 otherwise
	stages      []int32 // the stages of the region; for a host its stage
	queue       Queue
}

// holding is the deployment that holds a batch, and since when.
type holding struct {
	deployment *deployment
	since      time.Time // time of the row that acquired it, for people
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
	for s := range p.stages {
		stage := &p.stages[s]
		if stage.locked {
			stage.around = append(stage.around, p.stageBatch(int32(s)))
		}
		for _, r := range stage.ranges {
			stage.around = append(stage.around, p.rangeBatch(r))
		}
	}
}

// around lists the batches whose region has the step in it, innermost first. The start and the end
// of the pipeline are in no batch.
func (p *Graph) around(n int32) []batch {
	at := &p.nodes[n]
	if at.stage < 0 {
		return nil
	}
	if at.host < 0 {
		return slices.Clone(p.stages[at.stage].around)
	}
	return append([]batch{p.hostBatch(at.host)}, p.stages[at.stage].around...)
}

// isAround reports whether the region of a batch has the step in it.
func (p *Graph) isAround(b batch, n int32) bool {
	at := &p.nodes[n]
	switch {
	case at.stage < 0:
		return false
	case b.host >= 0:
		return at.host == b.host
	}
	return slices.Contains(b.stages, at.stage)
}

// hostBatch returns the batch of a host, whose queue is always FIFO.
func (p *Graph) hostBatch(h int32) batch {
	host := &p.hosts[h]
	return batch{id: batchID(host.path), open: host.started(), close: host.finished(), host: h, stages: []int32{host.stage}, queue: FIFO}
}

// stageBatch returns the batch of a stage. It exists only if the stage is locked, which the caller
// checks.
func (p *Graph) stageBatch(s int32) batch {
	stage := &p.stages[s]
	return batch{id: batchID(stage.path), open: stage.started, close: stage.finished, host: -1, stages: []int32{s},
		queue: p.def.Stages[s].Queue}
}

// rangeBatch returns a batch over several stages, by its number in ranges.
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

// nested reports whether inner is within outer. A host is within any batch that has its stage; a
// range is not within a smaller one. A stage and a range of that one stage are within each other,
// and are released together.
func nested(inner, outer batch) bool {
	for _, s := range inner.stages {
		if !slices.Contains(outer.stages, s) {
			return false
		}
	}
	return inner.host >= 0 || len(inner.stages) <= len(outer.stages)
}

// changedRegions lists the batches of next that old lacked or that had other stages there,
// outermost first, and the batches of the hosts that joined.
func changedRegions(old, next *Graph, joined []int32) []batch {
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
	for _, h := range joined {
		list = append(list, next.hostBatch(h))
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

// isInside reports whether some step of the region is complete or claimed. A deployment that has
// passed the region is inside by this measure too, so callers also ask whether the close is
// resolved. Of a host its start is enough, since nothing on the host comes before it.
func (t *deployment) isInside(b batch) bool {
	if b.host >= 0 {
		return t.is(b.open, complete|claimed)
	}
	for _, s := range b.stages {
		for _, n := range t.plan.below(stagePlace(s)) {
			if t.is(n, complete|claimed) {
				return true
			}
		}
	}
	return false
}
