package service_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
)

// The view of a deployment has what people did to it and its pipeline while it was on its way, in
// order, and nothing from before or after.
func TestDeploymentHasTheCommandsOnIt(t *testing.T) {
	t.Parallel()
	w, ctx := servertest.Start(t), t.Context()
	w.Apply(t, servertest.Definition)
	freeze := func(reason string) {
		t.Helper()
		if _, err := w.Service.Freeze(ctx, "greeter", admission.Freeze{By: "ana", Reason: reason}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Service.Thaw(ctx, "greeter", "bob", ""); err != nil {
			t.Fatal(err)
		}
	}
	freeze("before")
	w.Script.Hold("beta/all/oak host-deployed")
	ref := w.Ship(t, "greeter", "3f2c9a1")
	w.Until(t, ref, "reaches oak", func(v service.DeploymentView) bool {
		return v.State.Live == 1 && v.Stages[1].State == service.RunRunning
	})
	for _, c := range []service.Command{
		{Kind: "hold", Target: "prod", By: "ana", Reason: "checking dashboards"},
		{Kind: "skip", Target: "prod/east/elm", Event: "test", By: "bob", Reason: "flaky"},
		{Kind: "until", Target: "beta", By: "bob"},
		{Kind: "until", By: "bob"},
		{Kind: "resume", Target: "prod", By: "ana"},
	} {
		if err := w.Service.Command(ctx, ref, c); err != nil {
			t.Fatal(c, err)
		}
	}
	freeze("during")
	w.Script.Release("beta/all/oak host-deployed")
	w.Until(t, ref, "ends", servertest.Ended)
	freeze("after")
	view, err := w.Service.Outline(ctx, ref)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range view.Commands {
		got = append(got, c.Target+" "+c.Text)
	}
	want := []string{
		"greeter/prod held by ana: checking dashboards", "greeter/prod/east/elm skipped host-deployment-tested by bob: flaky",
		"greeter stops behind beta by bob", "greeter let go through every stage by bob", "greeter/prod resumed by ana",
		"greeter frozen by ana: during", "greeter thawed by bob",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A view keeps the newest commands only, so a program that sends them in a loop does not fill the
// memory.
func TestCommandsOfADeploymentAreBounded(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	w.Apply(t, servertest.Definition)
	w.Script.Hold("build build-completed")
	ref := w.Ship(t, "greeter", "3f2c9a1")
	for i := range 60 {
		kind := []string{"hold", "resume"}[i%2]
		if err := w.Service.Command(t.Context(), ref, service.Command{Kind: kind, By: "ana"}); err != nil {
			t.Fatal(err)
		}
	}
	view, err := w.Service.Outline(t.Context(), ref)
	if err != nil || len(view.Commands) != 50 || view.Commands[49].Event != pipeline.HoldCleared {
		t.Errorf("%d commands, %v; want the newest 50", len(view.Commands), err)
	}
	w.Script.Release("build build-completed")
}
