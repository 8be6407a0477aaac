package service_test

import (
	"testing"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
)

// An action has one attempt for each time that it was at work, with how it ended, and no more than
// it counts itself.
func TestAttemptsAreTheTimesAtWork(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	w.Apply(t, servertest.Definition)
	w.Script.End("prod/east/elm host-deployed", action.Outcome{Kind: action.Retry, Error: "not healthy"})
	w.Script.Hold("prod/west/yew host-deployed")
	ref := w.Ship(t, "greeter", "3f2c9a1")
	view := w.Until(t, ref, "gives elm up", func(v service.DeploymentView) bool { return len(v.Failures) == 1 && v.State.Live == 1 })
	elm, yew := view.Stages[2].Groups[0].Hosts[0].Steps[1], view.Stages[2].Groups[1].Hosts[0].Steps[1]
	tries, err := w.Service.Attempts(t.Context(), elm.Action)
	if err != nil || len(tries) != 2 || len(tries) != elm.Attempt {
		t.Fatalf("%+v, %v; want 2 attempts, as the step has: %d", tries, err, elm.Attempt)
	}
	if tries[0].Status != action.Backoff || tries[1].Status != action.RetriesExhausted || tries[0].Error != "not healthy" {
		t.Errorf("the attempts ended as %s and %s, want BACKOFF and RETRIES_EXHAUSTED", tries[0].Status, tries[1].Status)
	}
	if tries[0].EndedAt.Before(tries[0].StartedAt) || tries[1].StartedAt.Before(tries[0].EndedAt) ||
		tries[1].EndedAt.Before(tries[1].StartedAt) {
		t.Errorf("%+v overlap", tries)
	}
	live, err := w.Service.Attempts(t.Context(), yew.Action)
	if err != nil || len(live) != 1 || !live[0].EndedAt.IsZero() || live[0].Status != action.Running {
		t.Errorf("%+v, %v; want one that has not ended", live, err)
	}
	w.Script.Release("prod/west/yew host-deployed")
}
