package pipeline

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// line is a graph 0 → 1 → … → n-1.
func line(n int) adjacency {
	next := make([][]int, n)
	for i := range n - 1 {
		next[i] = []int{i + 1}
	}
	return asGraph(next)
}

// TestStepStates checks the table of step states, row by row, for the middle step of a line of
// three. A step is reached behind resolved steps, which need not be complete (R22).
func TestStepStates(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name            string
		known           [3]bits
		elided, resolve bool
		doable          bool
	}{
		{"complete", [3]bits{complete, complete, 0}, false, true, false},
		{"complete before its predecessor", [3]bits{0, complete, 0}, false, true, false},
		{"complete and excluded", [3]bits{complete, complete | excluded, 0}, false, true, false},
		{"excluded, predecessor open", [3]bits{0, excluded, 0}, true, false, false},
		{"excluded, predecessor resolved", [3]bits{complete, excluded, 0}, true, true, false},
		{"not new, predecessor elided too", [3]bits{0, 0, complete}, true, true, false},
		{"not new, predecessor resolved", [3]bits{complete, 0, complete}, true, true, false},
		{"not new: a claimed step counts like a complete one", [3]bits{complete, 0, claimed}, true, true, false},
		{"new, predecessor open", [3]bits{0, 0, 0}, false, false, false},
		{"new, predecessor resolved", [3]bits{complete, 0, 0}, false, false, true},
		{"new behind an elided step", [3]bits{excluded, 0, 0}, false, false, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			g := line(3)
			w := newWalk(&g, test.known[:])
			got := fmt.Sprintf("elided %v, resolved %v, doable %v", w.isElided(1), w.is(1, resolved), w.isDoable(1))
			if want := fmt.Sprintf("elided %v, resolved %v, doable %v", test.elided, test.resolve, test.doable); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// TestEdges3 checks the table of late steps (R24: 01– has no third): of the triples (x, y, z) along a line, edges3
// lists those whose y the walk elides (010) or has on its frontier (011); everything else cannot be. The walk needs no
// edges3: this shows that it agrees. z counts as done when the walk from y meets something done, since two steps may be
// put in at once.
func TestEdges3(t *testing.T) {
	t.Parallel()
	tests := []struct {
		known [4]bits
		want  []string
	}{
		{[4]bits{complete, 0, complete, 0}, []string{"010", "01–"}},
		{[4]bits{complete, 0, 0, complete}, []string{"010", "010"}},
		{[4]bits{complete, complete, 0, 0}, []string{"011"}},
		{[4]bits{complete, complete, complete, 0}, []string{"01–"}},
		{[4]bits{complete, complete, complete, complete}, nil},
		{[4]bits{0, complete, 0, 0}, []string{"011"}},
	}
	for _, test := range tests {
		g := line(4)
		w := newWalk(&g, append([]bits(nil), test.known[:]...))
		var got []string
		for x := range int32(3) {
			y := x + 1
			if !w.is(x, resolved) || w.is(y, complete) {
				continue
			}
			z := "–"
			if y < 3 {
				z = "1"
				if w.is(y, overtaken) {
					z = "0"
				}
			}
			got = append(got, "01"+z)
			if elided := w.isElided(y); elided != (z == "0") || w.isDoable(y) == elided {
				t.Errorf("%v: y = %d is elided %v, doable %v in a triple 01%s", test.known, y, elided, w.isDoable(y), z)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(test.want) {
			t.Errorf("%v: got %v, want %v", test.known, got, test.want)
		}
	}
}

// TestCoalescingWaitsForTheLongWay checks that a step waits for its longest path: step2 is next to
// step1, but also behind the long way (R5, R9).
func TestCoalescingWaitsForTheLongWay(t *testing.T) {
	t.Parallel()
	g := asGraph([][]int{{1, 2}, {}, {3}, {4}, {1}})
	w := newWalk(&g, make([]bits, 5))
	var order []int32
	for {
		found := false
		for s := range int32(5) {
			if w.isDoable(s) {
				w.complete(s)
				order = append(order, s)
				found = true
				break
			}
		}
		if !found {
			break
		}
	}
	if got, want := fmt.Sprint(order), "[0 2 3 4 1]"; got != want {
		t.Errorf("order %s, want %s", got, want)
	}
}

// TestCycleRunsEachStepOnce builds the cycle directly, since a definition with one is refused (R7).
func TestCycleRunsEachStepOnce(t *testing.T) {
	t.Parallel()
	g := asGraph([][]int{{1}, {2}, {1, 3}, {}})
	w := newWalk(&g, make([]bits, 4))
	for _, s := range []int32{0, 1, 2, 3} {
		if !w.isDoable(s) {
			t.Fatalf("step %d is not doable", s)
		}
		w.complete(s)
	}
	if w.done != 4 {
		t.Errorf("%d steps complete, want 4", w.done)
	}
}

// TestRegionsAreBetweenOpenAndClose checks that the regions that a graph derives from stages match
// the literal definition of a region (R12).
func TestRegionsAreBetweenOpenAndClose(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		plan, ok := settled(randomDefinition(t))
		if !ok {
			t.Fatal("not a pipeline")
		}
		g := newOracleGraph(plan.def, newOracle("shop").deal(plan.def))
		order := plan.order()
		for n, s := range g.steps {
			var want []batchID
			for _, b := range g.batches {
				if b.region[s] {
					want = append(want, b.id)
				}
			}
			var got []batchID
			for _, b := range plan.around(order[n]) {
				got = append(got, b.id)
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("%v is in %v, want %v", s, got, want)
			}
		}
	})
}

// TestViolationsStopTheFold: rows that no pass could have written are refused, with the invariant and the position.
func TestViolationsStopTheFold(t *testing.T) {
	t.Parallel()
	elm, fir := "greeter/prod/east/elm", "greeter/prod/east/fir"
	note := func(deployment int64, target, event string) Entry {
		return Entry{Deployment: deployment, Target: target, Event: StepClaimed, Class: Note, Detail: raw(StepDetail{Event: event})}
	}
	fact := func(deployment int64, target, event string) Entry {
		return Entry{Deployment: deployment, Target: target, Event: event, Class: Fact}
	}
	tests := []struct {
		invariant string
		play      func(w *world)
		row       Entry
	}{
		{"I1", func(w *world) { w.until(1, elm); w.until(2, "") }, fact(2, "greeter/prod", StageStarted)},
		{"I2", func(*world) {}, fact(1, "greeter/beta", StageStarted)},
		{"I2", func(*world) {}, note(1, elm, HostDeployed)},
		{"I9", func(w *world) { w.until(1, elm) }, fact(1, fir, HostStarted)},
		{"I10", func(w *world) { w.until(1, elm) }, fact(1, elm, HostStarted)},
		{"I11", func(w *world) { w.until(1, elm); w.cancel(1) }, note(1, elm, HostDeployed)},
		{"I11", func(w *world) { w.until(1, elm); w.cancel(1) }, fact(1, fir, HostStarted)},
	}
	for _, test := range tests {
		t.Run(test.invariant+" "+test.row.Event, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, greeter())
			w.create(1, 1)
			w.create(2, 2)
			test.play(w)
			test.row.Pipeline, test.row.Seq = "greeter", w.engine.Seq()+1
			err := w.engine.Apply(test.row)
			v, ok := errors.AsType[*Violation](err)
			if !ok || v.Invariant != test.invariant || v.Seq != test.row.Seq {
				t.Errorf("got %v, want a violation of %s at %d", err, test.invariant, test.row.Seq)
			}
		})
	}
}

// until ends the actions of a deployment until the target has a live one; for "", until it waits.
func (w *world) until(deployment int64, target string) {
	w.t.Helper()
	for range 1000 {
		w.decide()
		t := w.engine.deployments[deployment]
		if at, ok := t.plan.targets[target]; ok && (at.host >= 0 && w.engine.isLiveOn(t, at.host) || at.group < 0 && t.liveAt[at.stage] > 0) {
			return
		}
		lives := t.live.sorted()
		if len(lives) == 0 && target == "" {
			return
		}
		w.done(StepKey{deployment, lives[0].name.target, lives[0].name.event})
	}
	w.t.Fatalf("%s never starts", target)
}

func (w *world) cancel(deployment int64) {
	w.fold(Entry{Deployment: deployment, Target: w.engine.pipeline, Event: PipelineCanceled, Class: Note})
}

// TestRowsMustFollow: positions have no gaps, and a deployment's first row creates it.
func TestRowsMustFollow(t *testing.T) {
	t.Parallel()
	tests := map[string]Entry{
		"gap":      {Pipeline: "greeter", Seq: 3, Event: ArtifactRegistered, Class: Change},
		"pipeline": {Pipeline: "other", Seq: 2, Event: ArtifactRegistered, Class: Change},
		"unknown":  {Pipeline: "greeter", Seq: 2, Deployment: 9, Event: PipelineStarted, Class: Fact},
		"version":  {Pipeline: "greeter", Seq: 2, Event: PipelineDefined, Class: Change, Version: 7},
	}
	for name, row := range tests {
		w := newWorld(t, greeter())
		if err := w.engine.Apply(row); err == nil {
			t.Errorf("%s: applied", name)
		}
	}
}
