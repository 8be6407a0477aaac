package pipeline

import (
	"fmt"
	"strings"
	"testing"
)

// nextOf lists the steps that come directly after a step of a graph, by their short names.
func nextOf(p *Graph, name string) string {
	var names []string
	for n := range p.nodes {
		if p.name(int32(n)) == name {
			for _, next := range p.graph.next.of(int32(n)) {
				names = append(names, p.name(next))
			}
		}
	}
	return strings.Join(names, ", ")
}

// TestNextRowByRow checks the table of what comes directly after each kind of step.
func TestNextRowByRow(t *testing.T) {
	t.Parallel()
	bake := &Bake{For: 1, Every: 1}
	gates := []Gate{{Name: "calm", When: Before}, {Name: "paid", When: Before}, {Name: "smoke", When: After}, {Name: "deep", When: After}}
	waves := &Waves{Sizes: []Limit{{N: 1}, {N: 50, Percent: true}}, Bake: bake}
	flat := Group{Name: "flat", Hosts: hosts("gum")}
	full := hostStage("full", []string{"ready"}, Group{Name: "east", Hosts: hosts("elm", "fir", "oak"), Waves: waves},
		flat, Group{Name: "none", Waves: waves})
	full.Gates, full.Bake = gates, bake
	bare := hostStage("bare", []string{"ready"})
	bare.Gates, bare.Bake = gates, bake
	plain := hostStage("plain", []string{"full", "bare"}, Group{Name: "all", Hosts: hosts("ash"), Waves: &Waves{Sizes: []Limit{{N: 9}}}})
	plan := compiled(t, Definition{Pipeline: "shop", Service: Service{Name: "shop"}, Stages: []Stage{buildStage("any"),
		{Name: "ready", Kind: GateStage, After: []string{"build"}, Gates: gates[1:3], Bake: bake},
		{Name: "join", Kind: GateStage, After: []string{"build"}}, full, bare, plain}})
	tests := []struct{ step, next string }{
		{"shop pipeline-started", "build stage-started"},
		{"build stage-started", "build build-completed, build build-stage-received-any-artifact"},
		{"build build-completed", "build stage-finished-successfully"},
		{"build build-stage-received-any-artifact", "build stage-finished-successfully"},
		{"build stage-finished-successfully", "ready stage-started, join stage-started"},
		{"ready stage-started", "ready gate-passed/paid, ready gate-passed/smoke"},
		{"ready gate-passed/paid", "ready stage-baked"},
		{"ready gate-passed/smoke", "ready stage-baked"},
		{"ready stage-baked", "ready stage-finished-successfully"},
		{"join stage-started", "join stage-finished-successfully"},
		{"join stage-finished-successfully", "shop pipeline-finished-successfully"},
		{"full stage-started", "full gate-passed/calm, full gate-passed/paid"},
		{"full gate-passed/calm", "full/east host-group-started, full/flat host-group-started, full/none host-group-started"},
		{"full gate-passed/paid", "full/east host-group-started, full/flat host-group-started, full/none host-group-started"},
		{"full/east host-group-started", "full/east/wave-1 wave-started"},
		{"full/east/wave-1 wave-started", "full/east/elm host-started"},
		{"full/east/elm host-finished-successfully", "full/east/wave-1 wave-finished-successfully"},
		{"full/east/wave-1 wave-finished-successfully", "full/east/wave-1 wave-baked"},
		{"full/east/wave-1 wave-baked", "full/east/wave-2 wave-started"},
		{"full/east/wave-2 wave-started", "full/east/fir host-started, full/east/oak host-started"},
		{"full/east/wave-2 wave-baked", "full/east host-group-finished-successfully"},
		{"full/flat host-group-started", "full/flat/gum host-started"},
		{"full/flat/gum host-started", "full/flat/gum host-artifact-replicated"},
		{"full/flat/gum host-deployment-tested", "full/flat/gum host-finished-successfully"},
		{"full/flat/gum host-finished-successfully", "full/flat host-group-finished-successfully"},
		{"full/none host-group-started", "full/none host-group-finished-successfully"},
		{"full/east host-group-finished-successfully", "full gate-passed/smoke, full gate-passed/deep"},
		{"full gate-passed/smoke", "full stage-baked"},
		{"full stage-baked", "full stage-finished-successfully"},
		{"bare gate-passed/calm", "bare stage-finished-successfully"},
		{"bare gate-passed/smoke", ""},
		{"plain stage-started", "plain/all host-group-started"},
		{"plain/all/wave-1 wave-finished-successfully", "plain/all host-group-finished-successfully"},
		{"plain/all host-group-finished-successfully", "plain stage-finished-successfully"},
		{"shop pipeline-finished-successfully", ""},
	}
	for _, test := range tests {
		if got := nextOf(plan, test.step); got != test.next {
			t.Errorf("after %s comes %q, want %q", test.step, got, test.next)
		}
	}
}

// TestWavesAreDealtInListOrder: a percentage of the group is rounded up, and the last size repeats.
func TestWavesAreDealtInListOrder(t *testing.T) {
	t.Parallel()
	percent := func(n int) Limit { return Limit{N: n, Percent: true} }
	tests := []struct {
		sizes []Limit
		hosts int
		want  string
	}{
		{[]Limit{{N: 1}, percent(25)}, 12, "[1 3 3 3 2]"},
		{[]Limit{{N: 1}, percent(25)}, 13, "[1 4 4 4]"},
		{[]Limit{{N: 1}, {N: 2}}, 8, "[1 2 2 2 1]"},
		{[]Limit{percent(100)}, 3, "[3]"},
		{[]Limit{percent(1)}, 3, "[1 1 1]"},
		{[]Limit{{N: 5}}, 3, "[3]"},
		{[]Limit{{N: 5}}, 0, "[]"},
	}
	for _, test := range tests {
		var names []string
		for i := range test.hosts {
			names = append(names, fmt.Sprintf("h%d", i))
		}
		g := Group{Hosts: hosts(names...), Waves: &Waves{Sizes: test.sizes}}
		dealt := g.deal()
		counts := make([]int, dealt.count())
		last := int32(1)
		for _, name := range names {
			if dealt[name] < last {
				t.Errorf("%v: %s is in wave %d, behind wave %d", test.sizes, name, dealt[name], last)
			}
			last = dealt[name]
			counts[last-1]++
		}
		if got := fmt.Sprint(counts); got != test.want {
			t.Errorf("%v deals %d hosts as %s, want %s", test.sizes, test.hosts, got, test.want)
		}
	}
}
