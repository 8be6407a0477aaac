package pipeline

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestPassLooksAtOneWaitingHost: of a full group with thousands of waiting hosts a pass looks at one.
func TestPassLooksAtOneWaitingHost(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 5000 {
		names = append(names, fmt.Sprintf("h%04d", i))
	}
	g := group("all", names...)
	g.MaxParallel = Limit{N: 2}
	w := newWorld(t, Definition{Pipeline: "shop", Stages: []Stage{hostStage("prod", nil, g)}})
	w.create(1, 1)
	for range 20 {
		w.decide()
		q := &w.engine.deployments[1].queue
		if looked := len(q.heap) + len(q.parked); looked > 1 {
			t.Fatalf("the next pass would look at %d steps, want 1", looked)
		}
		name := w.engine.deployments[1].live.sorted()[0].name
		w.done(StepKey{1, name.target, name.event})
	}
}

// TestQueueYieldsStepsInTheirTurn whatever the order in which they were pushed.
func TestQueueYieldsStepsInTheirTurn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		turn := rapid.Permutation([]int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}).Draw(t, "turn")
		want := rapid.SliceOf(rapid.Int32Range(0, 11)).Draw(t, "steps")
		q := queue{turn: turn}
		for _, n := range want {
			q.push(n)
		}
		slices.SortFunc(want, func(a, b int32) int { return cmp.Compare(turn[a], turn[b]) })
		for _, n := range want {
			if got, ok := q.pop(); !ok || got != n {
				t.Fatalf("popped %d %v, want %d", got, ok, n)
			}
		}
		if _, ok := q.pop(); ok {
			t.Fatal("popped from an empty queue")
		}
	})
}
