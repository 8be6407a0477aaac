package pipeline

// fronts finds the step that a step ultimately waits for. It remembers the answer for all steps on
// the way, so that explaining a whole deployment stays linear.
type fronts struct {
	t     *deployment
	found []int32 // -1: not known yet
}

// fronts returns an empty memory for the deployment as it is now. It is out of date after the next
// row.
func (t *deployment) fronts() fronts {
	f := fronts{t: t, found: make([]int32, len(t.plan.nodes))}
	for n := range f.found {
		f.found[n] = -1
	}
	return f
}

// of returns an unresolved step before n that itself waits for no other step; n if n waits for
// none. Of several it follows the first predecessor in the order of edges. A step is marked before
// its predecessors are, so a cycle ends the search too.
func (f fronts) of(n int32) int32 {
	var way []int32
	for f.found[n] < 0 {
		way = append(way, n)
		f.found[n] = n
		for _, p := range f.t.plan.graph.prev.of(n) {
			if !f.t.is(p, resolved) {
				n = p
				break
			}
		}
	}
	for _, w := range way {
		f.found[w] = f.found[n]
	}
	return f.found[n]
}
