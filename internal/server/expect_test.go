package server_test

import (
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
)

const baked = `pipeline: greeter
service: {manager: none}
stages:
- name: build
  build: .wharf-ci.yml
  artifacts: {any: dist/x.tar.gz}
- name: beta
  hosts: ["local://oak"]
  bake: {for: 1h}
- name: prod
  hosts: ["local://elm"]
- name: people
  approval: {count: 1}
`

// stepOf returns an open step of a deployment.
func stepOf(t *testing.T, w *servertest.World, ref service.Ref, target, event string) pipeline.StepState {
	t.Helper()
	open, err := w.Service.Why(t.Context(), ref, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range open {
		if step.Target == "greeter/"+target && step.Event == event {
			return step
		}
	}
	return pipeline.StepState{}
}

// A bake lasts for the time in its definition, so that it is known when what waits for it begins, in a later
// deployment too. Nothing is known of what waits for people.
func TestWhySaysWhenAWaitingStepIsExpected(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	w.Apply(t, baked)
	w.Script.Hold("beta stage-baked")
	first := w.Ship(t, "greeter", "3f2c9a1")
	w.Until(t, first, "bakes", func(service.DeploymentView) bool {
		return stepOf(t, w, first, "beta", pipeline.StageBaked).State == pipeline.StateClaimed
	})
	second := w.Ship(t, "greeter", "88d0e17")
	w.Until(t, second, "waits for the batch", func(service.DeploymentView) bool {
		return strings.HasPrefix(stepOf(t, w, second, "beta", pipeline.StageStarted).Reason, "batch beta is held by greeter#1")
	})
	ends := stepOf(t, w, first, "beta", pipeline.StageBaked).At.Add(time.Hour)
	for _, c := range []struct {
		ref           service.Ref
		target, event string
		known         bool
	}{
		{first, "beta", pipeline.StageBaked, false}, // it has begun
		{first, "prod", pipeline.StageStarted, true},
		{first, "prod/all/elm", pipeline.HostDeployed, true},
		{first, "people", pipeline.StageStarted, false},
		{second, "beta", pipeline.StageStarted, true},
		{second, "prod", pipeline.StageStarted, true},
	} {
		got := stepOf(t, w, c.ref, c.target, c.event)
		late := ends
		if c.ref == second && c.target == "prod" {
			late = ends.Add(time.Hour) // behind its own bake
		}
		if known := !got.Expected.IsZero(); known != c.known || known && got.Expected.Sub(late).Abs() > time.Minute {
			t.Errorf("%s %s %s is expected %v, the bake ends %v", c.ref, c.target, c.event, got.Expected, late)
		}
	}
}
