package pipeline

import "slices"

// queue is the doable steps of a deployment that are neither claimed nor failed,
// arranged so that a pass does not look at every waiting host: of each group
// only the first host that may start is on the heap, until it has started or
// turned out to be blocked for a reason of its own.
//
// The queue decides only which steps are looked at, never what is decided: a step that it leaves
// out would be blocked for the same reason as the host before it. It is not part of the fold.
type queue struct {
	heap   []int32  // the step whose turn is first on top
	turn   []int32  // per step: its place in the order of a pass; of the graph, not changed here
	parked []int32  // blocked when last looked at
	starts []starts // per group
	epoch  int      // epoch of the walk that all this is from
}

// starts are the hosts of a group that no pass has looked at yet.
type starts struct {
	waiting []int32 // their steps host-started, ascending
	out     int     // how many are on the heap or parked
}

// collect adds the steps that the walk has found doable since the last call. After a restart of the
// walk it begins with an empty queue, since the walk then reports all doable steps. It does not ask
// whether a step is still doable: the pass does when the step's turn comes.
func (t *deployment) collect() {
	q := &t.queue
	if q.epoch != t.epoch {
		q.clear(t.plan)
		q.epoch = t.epoch
	}
	touched := false
	for _, n := range t.fresh {
		if t.is(n, queued) {
			continue
		}
		t.step[n] |= queued
		if at := &t.plan.nodes[n]; at.kind == hostStart {
			q.starts[at.group].waiting = append(q.starts[at.group].waiting, n)
			touched = true
			continue
		}
		q.push(n)
	}
	t.fresh = t.fresh[:0]
	if !touched {
		return
	}
	for g := range q.starts {
		if s := &q.starts[g]; !slices.IsSorted(s.waiting) {
			slices.Sort(s.waiting)
		}
		if q.starts[g].out == 0 {
			q.feed(int32(g))
		}
	}
}

// clear empties the queue for a graph. It keeps the arrays of the heap. The walk has forgotten what
// was queued.
func (q *queue) clear(p *Graph) {
	q.heap, q.parked, q.turn = q.heap[:0], q.parked[:0], p.turn
	q.starts = make([]starts, len(p.groups))
}

// feed puts the group's next host on the heap, if there is one that no pass has looked at.
func (q *queue) feed(group int32) {
	s := &q.starts[group]
	if len(s.waiting) == 0 {
		return
	}
	q.push(s.waiting[0])
	s.waiting = s.waiting[1:]
	s.out++
}

// bring puts a host of the group on the heap before its turn, if no pass has looked at it.
func (q *queue) bring(group, n int32) {
	s := &q.starts[group]
	if i, waits := slices.BinarySearch(s.waiting, n); waits {
		s.waiting = slices.Delete(s.waiting, i, i+1)
		q.push(n)
		s.out++
	}
}

// unpark puts the blocked steps back on the heap. Decide does so before every round, since what
// blocked them may be gone.
func (q *queue) unpark() {
	for _, n := range q.parked {
		q.push(n)
	}
	q.parked = q.parked[:0]
}

// drop forgets a step that was popped: it has been done, or is not doable any more.
func (t *deployment) drop(n int32) {
	t.step[n] &^= queued
	if at := &t.plan.nodes[n]; at.kind == hostStart {
		t.queue.starts[at.group].out--
		t.queue.feed(at.group)
	}
}

// park keeps a blocked step aside. If the reason is the host's own, the next host of its group gets
// its turn; otherwise that host would be blocked for the same reason.
func (t *deployment) park(n int32, ownReason bool) {
	t.queue.parked = append(t.queue.parked, n)
	if at := &t.plan.nodes[n]; at.kind == hostStart && ownReason {
		t.queue.feed(at.group)
	}
}

// candidates lists every doable, unclaimed, unfailed step, unordered. It takes none from the queue.
// A step that a pass has popped and not parked yet is missing.
func (t *deployment) candidates() []int32 {
	t.collect()
	list := slices.Concat(t.queue.heap, t.queue.parked)
	for g := range t.queue.starts {
		list = append(list, t.queue.starts[g].waiting...)
	}
	return slices.DeleteFunc(list, func(n int32) bool { return t.is(n, claimed|failed) || !t.isDoable(n) })
}

// push puts a step on the heap. The heap is written out, because container/heap would convert
// every number to an interface, and a pass pushes each doable step.
func (q *queue) push(n int32) {
	q.heap = append(q.heap, n)
	for i := len(q.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if q.turn[q.heap[up]] <= q.turn[q.heap[i]] {
			return
		}
		q.heap[up], q.heap[i] = q.heap[i], q.heap[up]
		i = up
	}
}

// pop takes the step whose turn is first from the heap, and returns false if the heap is empty. The
// step stays queued until drop, also while it is parked.
func (q *queue) pop() (int32, bool) {
	if len(q.heap) == 0 {
		return 0, false
	}
	top, last := q.heap[0], len(q.heap)-1
	q.heap[0] = q.heap[last]
	q.heap = q.heap[:last]
	for i := 0; ; {
		small := i
		for _, c := range [2]int{2*i + 1, 2*i + 2} {
			if c < last && q.turn[q.heap[c]] < q.turn[q.heap[small]] {
				small = c
			}
		}
		if small == i {
			return top, true
		}
		q.heap[i], q.heap[small] = q.heap[small], q.heap[i]
		i = small
	}
}
