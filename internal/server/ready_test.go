package server_test

import (
	"testing"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
)

// A stage is ready when its predecessors have finished, and a host when its group has started: not
// earlier, and not never.
func TestReadyIsWhenAllBeforeItWasDone(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	w.Apply(t, servertest.Definition)
	w.Script.Hold("beta/all/oak host-deployed")
	ref := w.Ship(t, "greeter", "3f2c9a1")
	at := w.Until(t, ref, "reaches oak", func(v service.DeploymentView) bool {
		return v.State.Live == 1 && len(v.Stages[1].Groups) > 0 && !v.Stages[1].StartedAt.IsZero()
	})
	if at.Stages[0].ReadyAt != at.CreatedAt {
		t.Errorf("the first stage is ready at %s, want the creation at %s", at.Stages[0].ReadyAt, at.CreatedAt)
	}
	if !at.Stages[2].ReadyAt.IsZero() || !at.Stages[2].Groups[0].ReadyAt.IsZero() {
		t.Errorf("prod is ready at %s before beta has finished", at.Stages[2].ReadyAt)
	}
	w.Script.Release("beta/all/oak host-deployed")
	done := w.Until(t, ref, "ends", servertest.Ended)
	for i := 1; i < 3; i++ {
		stage, before := done.Stages[i], done.Stages[i-1]
		if stage.ReadyAt != before.EndedAt {
			t.Errorf("%s is ready at %s, want the end of %s at %s", stage.Name, stage.ReadyAt, before.Name, before.EndedAt)
		}
		for _, group := range stage.Groups {
			if group.ReadyAt != stage.StartedAt || group.Hosts[0].ReadyAt != group.StartedAt {
				t.Errorf("%s is ready at %s and its host at %s, want %s and %s", group.Target, group.ReadyAt,
					group.Hosts[0].ReadyAt, stage.StartedAt, group.StartedAt)
			}
		}
	}
}

// A wave is ready when the one before it has baked, and its hosts when it has started.
func TestReadyOfAWaveIsAfterTheBakeBeforeIt(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	w.Apply(t, `pipeline: waved
service: {manager: process, exec: [./x]}
stages:
- name: build
  build: .wharf-ci.yml
  artifacts: {any: dist/x.tar.gz}
- name: prod
  groups:
  - {name: east, waves: {sizes: [1], bake: 1s}, hosts: [{url: "local://elm"}, {url: "local://fir"}]}
`)
	w.Script.Hold("prod/east/wave-1 wave-baked")
	ref := w.Ship(t, "waved", "3f2c9a1")
	baking := w.Until(t, ref, "bakes", func(v service.DeploymentView) bool {
		return len(v.Stages) == 2 && v.Stages[1].Groups[0].Waves[0].State == service.RunFinished && v.State.Live == 1
	}).Stages[1].Groups[0]
	if !baking.Waves[1].ReadyAt.IsZero() || !baking.Hosts[1].ReadyAt.IsZero() {
		t.Errorf("wave 2 is ready at %s and its host at %s while wave 1 bakes", baking.Waves[1].ReadyAt, baking.Hosts[1].ReadyAt)
	}
	w.Script.Release("prod/east/wave-1 wave-baked")
	group := w.Until(t, ref, "ends", servertest.Ended).Stages[1].Groups[0]
	if baked := group.Waves[0].Steps[0].EndedAt; group.Waves[1].ReadyAt != baked {
		t.Errorf("wave 2 is ready at %s, want the end of the bake at %s", group.Waves[1].ReadyAt, baked)
	}
	if got, want := group.Hosts[1].ReadyAt, group.Waves[1].StartedAt; got != want || want.IsZero() {
		t.Errorf("the host of wave 2 is ready at %s, want %s", got, want)
	}
}

// A step that was retried has its earlier action, with how that one ended.
func TestStepHasTheActionsBeforeItsRetry(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	w.Apply(t, servertest.Definition)
	w.Script.End("beta/all/oak host-deployed", action.Outcome{Kind: action.Fatal, Error: "disk full"})
	ref := w.Ship(t, "greeter", "3f2c9a1")
	failed := w.Until(t, ref, "fails", servertest.Ended).Stages[1].Groups[0].Hosts[0].Steps[1]
	w.Script.End("beta/all/oak host-deployed", action.Outcome{})
	if err := w.Service.Command(t.Context(), ref, service.Command{Kind: "retry", By: "ana"}); err != nil {
		t.Fatal(err)
	}
	step := w.Until(t, ref, "ends", servertest.Ended).Stages[1].Groups[0].Hosts[0].Steps[1]
	if len(failed.Earlier) != 0 || len(step.Earlier) != 1 {
		t.Fatalf("%d earlier actions before the retry and %d after it, want 0 and 1", len(failed.Earlier), len(step.Earlier))
	}
	try := step.Earlier[0]
	if try.Action != failed.Action || step.Action == failed.Action || try.Error != "disk full" ||
		try.EndedAt != failed.EndedAt || try.EndedAt.IsZero() {
		t.Errorf("%+v, want the action %s that failed", try, failed.Action)
	}
}
