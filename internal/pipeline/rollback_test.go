package pipeline

import "testing"

// TestFencesGrowWithRanks: a host refuses a lower fence than it has seen, so a deployment that goes over a rollback with a
// higher number than its own needs a higher fence.
func TestFencesGrowWithRanks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Definition{Pipeline: "shop", Service: Service{Name: "shop"}, Stages: []Stage{hostStage("prod", nil, group("all", "ash"))}})
	fences := func() (list []int64) {
		t.Helper()
		for {
			d := w.decide()
			for _, k := range d.Work {
				if k.Event == HostDeployed {
					list = append(list, k.Deployment, k.Fence)
				}
				w.done(k.StepKey)
			}
			if d.Empty() {
				return list
			}
		}
	}
	want := func(want ...int64) {
		t.Helper()
		got := fences()
		if len(got) != len(want) {
			t.Fatalf("deployments with fences %v, want %v", got, want)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("deployments with fences %v, want %v", got, want)
			}
		}
	}
	w.create(1, 1)
	want(1, 1)
	w.create(2, 2)
	want(2, 2)
	w.create(3, 3)
	for _, target := range []string{"shop/prod"} {
		w.fold(Entry{Deployment: 3, Target: target, Event: HoldSet, Class: Note})
	}
	want()
	rows, err := w.engine.Rollback(Rollback{By: "ana"})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		w.fold(row)
	}
	want(4, 4)
	w.fold(Entry{Deployment: 3, Target: "shop/prod", Event: HoldCleared, Class: Note})
	want(3, 5)
	w.create(5, 5)
	want(5, 6)
}
