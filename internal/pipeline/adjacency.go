package pipeline

// adjacency is G as numbers; the root is 0, and Graph says how the other steps are numbered. It knows nothing of
// definitions, and nothing of completed steps: what comes after a step must not change while a deployment proceeds
// (R5).
//
// Definitions with a cycle are refused, but a graph with one is walked all the same (R7). "Strictly
// after" is a relation of its strongly connected components, which form an acyclic graph. Without a
// cycle every step is a component of its own.
type adjacency struct {
	next, prev edges
	component  []int32 // component of each step
	members    edges   // the steps of each component, ascending
	isAcyclic  bool    // each component is one step and has its number
	// join has a number for each component with several edges into it, and -1 for each other one. A
	// walk counts the edges of joins only.
	join  []int32
	joins int32
	in    []int32 // per join: the edges into it from other components
}

// newGraph builds the adjacency of n steps from the edges (from[i], to[i]). All steps must be
// reached from step 0, since a walk begins there and never sees any other step. The order of a
// step's edges is kept.
func newGraph(n int, from, to []int32) adjacency {
	g := adjacency{next: makeEdges(n, from, to), prev: makeEdges(n, to, from)}
	g.component = components(g.next)
	steps := make([]int32, n)
	for i := range steps {
		steps[i] = int32(i)
	}
	count := int32(0) // components are numbered from 0 without gaps
	for _, c := range g.component {
		count = max(count, c+1)
	}
	if g.isAcyclic = int(count) == n; g.isAcyclic {
		g.component = steps
	}
	g.members = makeEdges(int(count), g.component, steps)
	g.findJoins(int(count))
	return g
}

// findJoins numbers the components with several edges into them from other components.
func (g *adjacency) findJoins(count int) {
	into := make([]int32, count)
	for s := range int32(g.size()) {
		for _, t := range g.next.of(s) {
			if g.component[t] != g.component[s] {
				into[g.component[t]]++
			}
		}
	}
	g.join = make([]int32, count)
	for c, n := range into {
		g.join[c] = -1
		if n > 1 {
			g.join[c] = g.joins
			g.joins++
			g.in = append(g.in, n)
		}
	}
}

// size returns the number of steps.
func (g *adjacency) size() int { return len(g.component) }

// edges is an adjacency list in two flat arrays: a graph of 100,000 hosts has half a million
// steps, and a slice for each would cost more than its edges.
type edges struct {
	start []int32 // per source: where its edges begin in to; one more entry marks the end
	to    []int32 // the targets of all edges, grouped by source
}

// makeEdges packs pairs (from[i], to[i]) of n sources and keeps their order, by counting sort. With
// the arguments exchanged it gives the edges backward.
func makeEdges(n int, from, to []int32) edges {
	e := edges{start: make([]int32, n+1), to: make([]int32, len(to))}
	for _, f := range from {
		e.start[f+1]++
	}
	for i := range n {
		e.start[i+1] += e.start[i]
	}
	at := append([]int32(nil), e.start[:n]...)
	for i, f := range from {
		e.to[at[f]] = to[i]
		at[f]++
	}
	return e
}

// of returns where the edges of n lead, in the order in which they were given.
func (e edges) of(n int32) []int32 { return e.to[e.start[n]:e.start[n+1]] }

// count returns the number of sources, those without edges included.
func (e edges) count() int { return len(e.start) - 1 }

// breadthFirst lists what is reached from root, each step once, in the order of the walk.
func breadthFirst(root int32, next edges) []int32 {
	seen := make([]bool, next.count())
	seen[root] = true
	order := []int32{root}
	for i := 0; i < len(order); i++ {
		for _, n := range next.of(order[i]) {
			if !seen[n] {
				seen[n] = true
				order = append(order, n)
			}
		}
	}
	return order
}

// components numbers the strongly connected components (Tarjan, without recursion
// because a chain may be as long as the graph).
func components(next edges) []int32 {
	n := next.count()
	t := tarjan{next: next, index: make([]int32, n), low: make([]int32, n), edge: make([]int32, n), component: make([]int32, n)}
	for i := range t.component {
		t.component[i] = -1
	}
	for v := range int32(n) {
		if t.index[v] == 0 {
			t.visit(v)
		}
	}
	return t.component
}

// tarjan is the state of Tarjan's algorithm. path replaces the call stack; open is the stack of
// steps that have no component yet.
type tarjan struct {
	next       edges
	index, low []int32 // per step: when it was met, 0 for not yet; the earliest open step it can reach
	edge       []int32 // per step: how many of its edges were followed
	component  []int32 // per step; -1: none yet
	open, path []int32 // stacks of steps
	met, found int32   // how many steps were met and components were found
}

// visit finds the components of all steps that are reached from root and were not met before. Every
// round either follows one edge of the last step on path or leaves that step.
func (t *tarjan) visit(root int32) {
	t.enter(root)
	for len(t.path) > 0 {
		v := t.path[len(t.path)-1]
		to := t.next.of(v)
		if int(t.edge[v]) == len(to) {
			t.leave(v)
			continue
		}
		w := to[t.edge[v]]
		t.edge[v]++
		switch {
		case t.index[w] == 0:
			t.enter(w)
		case t.component[w] < 0: // w is on open, so it may be in the component of v
			t.low[v] = min(t.low[v], t.index[w])
		}
	}
}

// enter begins the visit of v. Indexes count from 1, so that 0 marks a step that was not met.
func (t *tarjan) enter(v int32) {
	t.met++
	t.index[v], t.low[v] = t.met, t.met
	t.open = append(t.open, v)
	t.path = append(t.path, v)
}

// leave ends the visit of v, whose edges have all been followed. If v cannot reach a step that was
// met before it, v and everything above it on open are one component.
func (t *tarjan) leave(v int32) {
	t.path = t.path[:len(t.path)-1]
	if len(t.path) > 0 {
		above := t.path[len(t.path)-1]
		t.low[above] = min(t.low[above], t.low[v])
	}
	if t.low[v] != t.index[v] {
		return
	}
	for {
		w := t.open[len(t.open)-1]
		t.open = t.open[:len(t.open)-1]
		t.component[w] = t.found
		if w == v {
			break
		}
	}
	t.found++
}
