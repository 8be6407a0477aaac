package pipeline

import (
	"fmt"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// TestReturnsFollowTheDefinitions does what TestEngineFollowsTheDefinitions does for programs in which rollbacks and catch-ups
// meet deployments in the middle of hosts: most stages are without a queue, few hosts may be in flight, and nothing waits for
// people or time.
func TestReturnsFollowTheDefinitions(t *testing.T) {
	t.Parallel()
	for i := range max(1, *rounds/4) {
		t.Run(strconv.Itoa(i), func(t *testing.T) { rapid.Check(t, playReturns) })
	}
}

func playReturns(t *rapid.T) {
	plan, ok := settled(randomReturns(t))
	if !ok {
		t.Fatal("not a pipeline")
	}
	p := newProgram(t, plan)
	for range rapid.IntRange(1, 2).Draw(t, "finished") {
		p.run()
		p.create()
	}
	for range rapid.IntRange(1, 30).Draw(t, "moves") {
		p.move("decide", "end", "end", "fail", "cancel", "create", "create", "command", "retry", "skip or hold", "edit",
			"judge", "rollback", "rollback", "rollback",
			"run", "set back", "catch up", "work", "work", "work", "work")
	}
	p.finish()
}

// randomReturns draws a pipeline for playReturns.
func randomReturns(t *rapid.T) Definition {
	d := Definition{Pipeline: "shop", Order: rapid.SampledFrom([]Order{Runnable, Runnable, Strict}).Draw(t, "order"),
		Pin: rapid.IntRange(0, 6).Draw(t, "pin") == 0, Service: Service{Name: "shop"}}
	for i := range rapid.IntRange(1, 2).Draw(t, "stages") {
		s := hostStage(fmt.Sprintf("s%d", i), randomAfter(t, d, i))
		s.Queue = rapid.SampledFrom([]Queue{NoQueue, NoQueue, NoQueue, FIFO, Latest}).Draw(t, "queue")
		s.OnFailure = rapid.SampledFrom([]OnFailure{Release, RollBack, RollBack, Hold}).Draw(t, "onFailure")
		s.Chain = chain([]string{HostReplicated, HostDeployed}[:rapid.IntRange(1, 2).Draw(t, "chain")]...)
		addOnce(t, &s, 2)
		s.Groups = []Group{{Name: "g", MaxParallel: Limit{N: rapid.IntRange(1, 2).Draw(t, "maxParallel")},
			MaxFailed: Limit{N: rapid.IntRange(0, 1).Draw(t, "maxFailed")}, CatchUp: rapid.Bool().Draw(t, "joining")}}
		for range rapid.IntRange(1, 4).Draw(t, "hosts") {
			addHost(t, &s, 0)
		}
		if rapid.IntRange(0, 4).Draw(t, "waved") == 0 {
			s.Groups[0].Waves = randomWaves(t)
		}
		d.Stages = append(d.Stages, s)
	}
	if rapid.IntRange(0, 3).Draw(t, "range") == 0 {
		addBatch(t, &d)
	}
	return d
}

// work makes passes and ends actions well, some out of order.
func (p *program) work() {
	for range rapid.IntRange(1, 12).Draw(p.T, "ends") {
		p.decide(1000)
		p.end("")
	}
}
