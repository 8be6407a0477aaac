package server_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
)

// conditioned is a pipeline whose stage prod has a condition of each kind. Its window is open on
// one minute of the year.
const conditioned = `pipeline: greeter
service: {manager: process, exec: [./x]}
test: [{tcp: "127.0.0.1:1"}]
stages:
- name: build
  build: .wharf-ci.yml
  artifacts: {any: dist/x.tar.gz}
- name: prod
  hosts: ["local://elm"]
  windows: [{kind: Allow, schedule: "0 4 29 2 *", duration: 1m, timezone: UTC}]
  approval: {count: 1, by: [bob]}
  gates:
  - {name: smoke, http: {url: "https://smoke.example"}}
  - {name: calm, when: Before, http: {url: "https://calm.example"}}
  bake: {for: 10m}
`

// prodConditions returns the conditions of prod as texts with their states.
func prodConditions(t *testing.T, w *servertest.World) (list []string) {
	t.Helper()
	view, err := w.Service.Pipeline(t.Context(), "greeter")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range view.Stages[1].Conditions {
		text := c.Text
		if c.State == service.ConditionClosed {
			text = text[:len("window opens")] // without the day
		}
		list = append(list, text+": "+string(c.State))
	}
	return list
}

// The view of a stage has the state of its window, approval, gates and bake, in the order in which
// a deployment meets them.
func TestStageViewHasItsConditions(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	want := func(when string, conditions ...string) {
		t.Helper()
		if diff := cmp.Diff(conditions, prodConditions(t, w)); diff != "" {
			t.Errorf("%s: %s", when, diff)
		}
	}
	w.Apply(t, conditioned)
	want("before any deployment", "window opens: closed", "approval of 1: waiting", "gate calm: waiting",
		"gate smoke: waiting", "bake 10m: waiting")
	ref := w.Ship(t, "greeter", "3f2c9a1")
	w.Until(t, ref, "is built", func(v service.DeploymentView) bool { return v.Stages[0].State == service.RunFinished })
	w.Apply(t, strings.Replace(conditioned, "kind: Allow", "kind: Deny", 1))
	w.Until(t, ref, "waits for approval", func(v service.DeploymentView) bool { return len(v.State.Approvals) == 1 })
	want("waiting for people", "window open: open", "approval 0 of 1: waiting", "gate calm: waiting",
		"gate smoke: waiting", "bake 10m: waiting")

	w.Script.End("prod gate-passed/smoke", action.Outcome{Kind: action.Fatal, Error: "no"})
	w.Script.Hold("prod gate-passed/calm")
	if _, err := w.Service.Approve(t.Context(), service.Approval{Pipeline: "greeter", Stage: "prod", By: "bob"}); err != nil {
		t.Fatal(err)
	}
	w.Until(t, ref, "asks calm", func(v service.DeploymentView) bool { return v.State.Live == 1 })
	want("asking", "window open: open", "approved: passed", "gate calm running: running", "gate smoke: waiting", "bake 10m: waiting")

	w.Script.Release("prod gate-passed/calm")
	w.Until(t, ref, "fails", servertest.Ended)
	want("failed", "window open: open", "approved: passed", "gate calm passed: passed", "gate smoke failed: failed", "bake 10m: waiting")

	if err := w.Service.Command(t.Context(), ref, service.Command{Kind: "skip", Target: "prod", By: "ana"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("a skip without a reason: %v, want it refused as invalid", err)
	}
	if err := w.Service.Command(t.Context(), ref,
		service.Command{Kind: "skip", Target: "prod", Event: "gate-passed/smoke", By: "ana", Reason: "known"}); err != nil {
		t.Fatal(err)
	}
	want("skipped", "window open: open", "approved: passed", "gate calm passed: passed", "gate smoke skipped: skipped", "bake 10m: waiting")
	if err := w.Service.Command(t.Context(), ref, service.Command{Kind: "retry", By: "ana"}); err != nil {
		t.Fatal(err)
	}
	w.Until(t, ref, "finishes", servertest.Ended)
	want("finished", "window open: open", "approved: passed", "gate calm passed: passed", "gate smoke skipped: skipped",
		"bake 10m passed: passed")
}

// A stage is shown as approved only if a person approved it, not if the approval was added to the
// definition after the deployment.
func TestApprovalThatNobodyGaveIsNotShown(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	w.Apply(t, servertest.Definition)
	w.Until(t, w.Ship(t, "greeter", "3f2c9a1"), "ends", servertest.Ended)
	w.Apply(t, servertest.Definition+"  approval: {count: 1}\n")
	view, err := w.Service.Pipeline(t.Context(), "greeter")
	if err != nil {
		t.Fatal(err)
	}
	conditions := view.Stages[len(view.Stages)-1].Conditions
	if len(conditions) != 1 || conditions[0].Text != "approval not needed" ||
		conditions[0].State != service.ConditionPassed || conditions[0].Deployment != 1 {
		t.Errorf("conditions %+v", conditions)
	}
}

// TestFailureOfABakeIsItsAlarm also when the canceled attempt reports an error of its own.
func TestFailureOfABakeIsItsAlarm(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	s.Apply(t, withProd("bake: {for: 1h, every: 1m}"))
	s.Script.End("prod stage-baked", action.Outcome{Kind: action.Fatal, Error: "host elm: canceled"})
	s.Script.Hold("prod stage-baked")
	ref := s.Ship(t, "greeter", "3f2c9a1")
	s.Until(t, ref, "bakes", func(service.DeploymentView) bool {
		return command(t.Context(), s.client(), ref, service.Command{Kind: "alarm", Target: "prod", Reason: "p99 above 2s"}) == nil
	})
	view := s.Until(t, ref, "fails", servertest.Ended)
	if len(view.Failures) != 1 || view.Failures[0].Why != "alarm by ana: p99 above 2s" {
		t.Errorf("failures: %+v", view.Failures)
	}
}
