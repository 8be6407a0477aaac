package pipeline

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkDecide is a pass after each end of an action, in a group of so many hosts of which a quarter is in flight.
func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("hosts=%d", n), func(b *testing.B) {
			g := Group{Name: "all", MaxParallel: Limit{N: 25, Percent: true}}
			for i := range n {
				g.Hosts = append(g.Hosts, host(fmt.Sprintf("h%d", i)))
			}
			d := Definition{Pipeline: "shop", Stages: []Stage{hostStage("prod", nil, g)}}
			start := time.Now()
			plan := compiled(b, d)
			compile := time.Since(start)
			decisions, spent := 0, time.Duration(0)
			for b.Loop() {
				e := New("shop")
				e.AddVersion(1, plan)
				rows := []Entry{{Event: PipelineDefined, Class: Change, Version: 1}, {Deployment: 1, Event: DeploymentCreated, Class: Note}}
				var live []Work
				begin := time.Now()
				for len(rows) > 0 {
					for _, row := range rows {
						row.Pipeline, row.Seq = "shop", e.Seq()+1
						if err := e.Apply(row); err != nil {
							b.Fatal(err)
						}
					}
					decision, err := e.Decide(noon, 2000)
					if err != nil {
						b.Fatal(err)
					}
					live = append(live, decision.Work...)
					decisions += len(decision.Entries)
					rows = rows[:0]
					if len(live) > 0 && !decision.More {
						rows = append(rows, Entry{Deployment: 1, Target: live[0].Target, Event: live[0].Event, Class: Fact})
						live = live[1:]
					} else if decision.More {
						rows = append(rows, Entry{Target: "shop", Event: ArtifactRegistered, Class: Change, Revision: 1,
							Detail: raw(artifactDetail{Label: "x"})})
					}
				}
				spent += time.Since(begin)
			}
			b.ReportMetric(float64(decisions)/spent.Seconds(), "decisions/s")
			b.ReportMetric(compile.Seconds()*1000, "compile-ms")
		})
	}
}

// BenchmarkExplain is the reasons of every step of a deployment, of which most wait for one host.
func BenchmarkExplain(b *testing.B) {
	g := Group{Name: "all", MaxParallel: Limit{N: 1}}
	for i := range 50_000 {
		g.Hosts = append(g.Hosts, host(fmt.Sprintf("h%d", i)))
	}
	second := g
	second.Hosts = nil
	for _, h := range g.Hosts {
		second.Hosts = append(second.Hosts, host("x"+h.Name))
	}
	w := newWorld(b, Definition{Pipeline: "shop", Stages: []Stage{hostStage("lab", nil, g), hostStage("prod", []string{"lab"}, second)}})
	w.create(1, 1)
	w.decide()
	for b.Loop() {
		if got := len(w.engine.Explain(1, noon)); got != w.engine.deployments[1].plan.Steps() {
			b.Fatalf("%d steps", got)
		}
	}
}

// BenchmarkStep measures each row of a deployment to a group of so many hosts, a quarter at a time: of the shipped engine,
// and of the definitional one, which computes everything again after each row.
func BenchmarkStep(b *testing.B) {
	for _, n := range []int{10, 40, 160} {
		g := Group{Name: "all", MaxParallel: Limit{N: 25, Percent: true}}
		for i := range n {
			g.Hosts = append(g.Hosts, host(fmt.Sprintf("h%d", i)))
		}
		d := Definition{Pipeline: "shop", Stages: []Stage{hostStage("prod", nil, g)}}
		var log []Entry
		b.Run(fmt.Sprintf("hosts=%d/shipped", n), func(b *testing.B) {
			for b.Loop() {
				w := newWorld(b, d)
				w.create(1, 1)
				w.workUntilDone()
				log = w.log
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(log)), "µs/row")
		})
		if n > 40 {
			continue // minutes for one deployment
		}
		b.Run(fmt.Sprintf("hosts=%d/definitional", n), func(b *testing.B) {
			rows := 0
			for b.Loop() {
				o := newOracle("shop")
				o.graphs[1] = newOracleGraph(compiled(b, d).def, nil) // no waves, so nothing is dealt
				for _, row := range log {
					if o.apply(row); row.Class != Change {
						o.first()
					}
					rows++
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(rows), "µs/row")
		})
	}
}
