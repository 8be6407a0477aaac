package promotion_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/promotion"
)

// benchWorld returns a pipeline in the middle of a run: a first half of its environments is complete.
func benchWorld(tb testing.TB, environments, targets int) promotion.Input {
	w := newWorld()
	w.Spec.Environments = nil
	for e := range environments {
		env := promotion.Environment{Name: promotion.EnvName(fmt.Sprintf("env-%02d", e)), Need: targets,
			Strategy: promotion.PullRequest,
			Soak:     time.Minute, Gates: []promotion.Gate{{Name: "smoke", When: promotion.After}}}
		for n := range targets {
			env.Targets = append(env.Targets, promotion.TargetID{Cluster: fmt.Sprintf("apps/leaf-%02d", n),
				Namespace: string(env.Name)})
		}
		if e > 0 {
			env.DependsOn = []promotion.EnvName{w.Spec.Environments[e-1].Name}
		}
		w.Spec.Environments = append(w.Spec.Environments, env)
	}
	see := func(e int, text string) {
		for _, id := range w.Spec.Environments[e].Targets {
			w.Seen[id] = seen(text, w.Now)
		}
	}
	for n := range 20 {
		w.Sightings = append(w.Sightings, promotion.Sighting{Seq: int64(n + 1),
			Revision: promotion.Revision(fmt.Sprintf("v%d", n)), At: w.Now})
	}
	for e := range environments {
		see(e, "v19")
	}
	see(0, "v20")
	half := max(2, environments/2)
	for e := range half {
		see(e, "v20")
		w.settle(tb)
		w.after(2 * time.Minute).settle(tb)
		name := w.Spec.Environments[e].Name
		w.end(name, promotion.OpGate, promotion.AttemptDone).gate(name, "smoke", true).settle(tb)
	}
	w.proposes(w.Spec.Environments[half].Name)
	w.settle(tb)
	return w.Input
}

func BenchmarkDecide(b *testing.B) {
	for _, size := range [][2]int{{3, 2}, {50, 20}} {
		b.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(b *testing.B) {
			in := benchWorld(b, size[0], size[1])
			b.ReportAllocs()
			for b.Loop() {
				promotion.Decide(in)
			}
		})
	}
}
