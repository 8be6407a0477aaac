package pipeline

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// literal applies the definitions of walk literally, over steps that are numbers: slow, and
// written down from the definitions rather than from the shipped engine.
type literal struct {
	next  [][]int
	after [][]bool // after(s): all that is reached from s over one or more edges
}

func newLiteral(next [][]int) *literal {
	l := &literal{next: next, after: make([][]bool, len(next))}
	for s := range next {
		l.after[s] = make([]bool, len(next))
		var visit func(int)
		visit = func(at int) {
			for _, t := range next[at] {
				if !l.after[s][t] {
					l.after[s][t] = true
					visit(t)
				}
			}
		}
		visit(s)
	}
	return l
}

// strictly: t is strictly after s.
func (l *literal) strictly(s, t int) bool { return l.after[s][t] && !l.after[t][s] }

func (l *literal) isNew(known []bits, s int) bool {
	for t := range l.next {
		if l.strictly(s, t) && known[t]&(complete|claimed) != 0 {
			return false
		}
	}
	return true
}

func (l *literal) elided(known []bits, s int) bool {
	return known[s]&complete == 0 && (known[s]&excluded != 0 || !l.isNew(known, s))
}

// resolved: complete, or elided with every predecessor outside its own strongly connected component resolved.
func (l *literal) resolved(known []bits) []bool {
	is := make([]bool, len(l.next))
	for changed := true; changed; {
		changed = false
		for s := range l.next {
			if is[s] {
				continue
			}
			behind := true
			for p := range l.next {
				if slices.Contains(l.next[p], s) && l.strictly(p, s) && !is[p] {
					behind = false
				}
			}
			if known[s]&complete != 0 || l.elided(known, s) && behind {
				is[s], changed = true, true
			}
		}
	}
	return is
}

// frontier walks from the root through resolved steps and returns the steps met that are neither
// resolved nor elided. Its set of seen steps guards only the walk (R21).
func (l *literal) frontier(known []bits) []bool {
	resolved := l.resolved(known)
	found, seen := make([]bool, len(l.next)), make([]bool, len(l.next))
	var visit func(int)
	visit = func(s int) {
		if seen[s] {
			return
		}
		seen[s] = true
		if !resolved[s] {
			found[s] = !l.elided(known, s)
			return
		}
		for _, t := range l.next[s] {
			visit(t)
		}
	}
	visit(0)
	return found
}

// doable returns the steps that are on the frontier, new, ready and not excluded. A step s is ready
// when no frontier step has s strictly after it (R13).
func (l *literal) doable(known []bits) []bool {
	frontier := l.frontier(known)
	is := make([]bool, len(l.next))
	for s := range l.next {
		ready := true
		for t := range l.next {
			if frontier[t] && l.strictly(t, s) {
				ready = false
			}
		}
		is[s] = frontier[s] && l.isNew(known, s) && ready && known[s]&excluded == 0
	}
	return is
}

// randomGraph is a graph whose steps are all reached from 0, with or without cycles.
func randomGraph(t *rapid.T, cycles bool) [][]int {
	n := rapid.IntRange(1, 12).Draw(t, "steps")
	next := make([][]int, n)
	edge := func(a, b int) {
		if !slices.Contains(next[a], b) {
			next[a] = append(next[a], b)
		}
	}
	for s := 1; s < n; s++ {
		edge(rapid.IntRange(0, s-1).Draw(t, "parent"), s)
	}
	for range rapid.IntRange(0, n).Draw(t, "more") {
		a, b := rapid.IntRange(0, n-1).Draw(t, "a"), rapid.IntRange(0, n-1).Draw(t, "b")
		if cycles || a < b {
			edge(a, b)
		}
	}
	return next
}

func asGraph(next [][]int) adjacency {
	var from, to []int32
	for s, list := range next {
		for _, t := range list {
			from, to = append(from, int32(s)), append(to, int32(t))
		}
	}
	return newGraph(len(next), from, to)
}

// TestWalkFollowsTheDefinitions plays random programs of completing, claiming, ending and excluding on random
// graphs. After each move it compares the incremental walk with the definitions computed afresh.
func TestWalkFollowsTheDefinitions(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cycles := rapid.Bool().Draw(t, "cycles")
		next := randomGraph(t, cycles)
		l, g := newLiteral(next), asGraph(next)
		known := make([]bits, len(next))
		for s := range known { // a state that no run would reach, as edits leave it
			known[s] = rapid.SampledFrom([]bits{0, 0, 0, complete, excluded}).Draw(t, "known")
		}
		w := newWalk(&g, slices.Clone(known))
		compareWalk(t, l, w, known, cycles)
		for range rapid.IntRange(0, 20).Draw(t, "moves") {
			s := int32(rapid.IntRange(0, len(next)-1).Draw(t, "step"))
			switch rapid.SampledFrom([]string{"complete", "claim", "end", "exclude"}).Draw(t, "move") {
			case "complete":
				known[s] = known[s]&^(claimed|failed) | complete
				w.complete(s)
			case "claim":
				if known[s]&(complete|claimed) != 0 {
					continue
				}
				known[s] |= claimed
				w.claim(s)
			case "end":
				if known[s]&claimed == 0 {
					continue
				}
				known[s] &^= claimed
				w.unclaim(s)
			case "exclude":
				known[s] |= excluded
				w.exclude(s)
			}
			compareWalk(t, l, w, known, cycles)
		}
	})
}

func compareWalk(t *rapid.T, l *literal, w *walk, known []bits, cycles bool) {
	t.Helper()
	resolvedWant, doableWant := l.resolved(known), l.doable(known)
	done, elided := 0, 0
	for s := range known {
		n := int32(s)
		if got, want := w.isElided(n), l.elided(known, s); got != want {
			t.Fatalf("step %d: elided %v, want %v", s, got, want)
		}
		if got, want := w.isDoable(n), doableWant[s]; got != want {
			t.Fatalf("step %d: doable %v, want %v (known %v, next %v)", s, got, want, known, l.next)
		}
		if got, want := w.is(n, resolved), resolvedWant[s]; got != want && !cycles {
			t.Fatalf("step %d: resolved %v, want %v", s, got, want)
		}
		if known[s]&complete != 0 {
			done++
		} else if l.elided(known, s) {
			elided++
		}
	}
	if w.done != done || w.elided != elided {
		t.Fatalf("counts %d complete and %d elided, want %d and %d", w.done, w.elided, done, elided)
	}
}
