package pipeline

import (
	"maps"
	"slices"
)

// clone returns a copy that gives numbers of its own from then on.
func (n *numbers) clone() numbers {
	return numbers{maps.Clone(n.paths), slices.Clone(n.names), slices.Clone(n.hosts), slices.Clone(n.stages),
		maps.Clone(n.resources), maps.Clone(n.graphs)}
}

// held returns the holders of batches, by id.
func (e *Engine) held() map[batchID]holding {
	held := map[batchID]holding{}
	for id, h := range e.holder {
		if h.deployment != nil {
			held[batchID(e.numbers.names[id])] = h
		}
	}
	return held
}

// resourcesWith returns what the engine keeps of the resources that pass a test.
func (e *Engine) resourcesWith(test func(resourceState) bool) map[Resource]resourceState {
	list := map[Resource]resourceState{}
	for r, n := range e.numbers.resources {
		if test(e.resources[n]) {
			list[r] = e.resources[n]
		}
	}
	return list
}

func isBusyNow(r resourceState) bool { return r.busy.deployment != nil }
func isStarted(r resourceState) bool { return r.started != nil }

// inFlightIn returns how many hosts of a group are in flight, by its path.
func (e *Engine) inFlightIn(group string) int {
	n, ok := e.numbers.paths[group]
	if !ok {
		return 0
	}
	return int(e.hostsInFlight[n])
}

// named returns a map by number as one by name.
func named[V any](e *Engine, m map[int32]V) map[string]V {
	list := map[string]V{}
	for n, v := range m {
		list[e.numbers.names[n]] = v
	}
	return list
}
