package pipeline

// moves maps the steps of one graph to those of another, and lists the hosts that only one graph
// has. It is computed once for an edit and used for every deployment.
type moves struct {
	to, back     []int32 // per step of the first and of the second graph; -1: not in the other graph
	gone         []int32 // steps that only the one has
	left, joined []int32 // hosts of the one and of the other
}

// movesTo returns where the steps of a graph are on the next one. It keeps the answers for the last
// graph that was asked for.
func (e *Engine) movesTo(from, next *Graph) moves {
	if e.next != next {
		e.next, e.moves, e.changed, e.excluded = next, map[*Graph]moves{}, map[workKey][]int32{}, map[stepName][]int32{}
	}
	m, ok := e.moves[from]
	if ok {
		return m
	}
	m = moves{to: make([]int32, len(from.nodes)), back: make([]int32, len(next.nodes))}
	for n := range m.back {
		m.back[n] = -1
	}
	for n := range m.to {
		m.to[n] = int32(n)
		if from != next {
			m.to[n] = next.find(from.target(int32(n)), from.nodes[n].event)
		}
		if m.to[n] >= 0 {
			m.back[m.to[n]] = int32(n)
		} else {
			m.gone = append(m.gone, int32(n))
		}
	}
	from.sort(m.gone)
	for h := range from.hosts {
		if m.to[from.hosts[h].started()] < 0 {
			m.left = append(m.left, int32(h))
		}
	}
	for h := range next.hosts {
		if m.back[next.hosts[h].started()] < 0 {
			m.joined = append(m.joined, int32(h))
		}
	}
	e.moves[from] = m
	return m
}

// excludedBy returns the steps of a graph that an exclusion is about. An edit asks for the same ones
// for each deployment, so the answers for the graph of the edit are kept.
func (e *Engine) excludedBy(plan *Graph, x exclusion) []int32 {
	if plan != e.next {
		return plan.under(x.target, x.event)
	}
	name := stepName{x.target, x.event}
	list, ok := e.excluded[name]
	if !ok {
		list = plan.under(x.target, x.event)
		e.excluded[name] = list
	}
	return list
}

// walkOn returns the walk that a deployment would have on another graph. more are exclusions that an
// edit would add. Without any, an edit asks several times, and gets the same walk, which it must not
// change.
func (e *Engine) walkOn(t *deployment, next *Graph, more ...exclusion) *walk {
	if len(more) > 0 {
		return newWalk(&next.graph, e.known(t, next, more...))
	}
	if w := e.walks[t]; w != nil && w.g == &next.graph {
		return w
	}
	w := newWalk(&next.graph, e.known(t, next))
	if e.walks != nil {
		e.walks[t] = w
	}
	return w
}
