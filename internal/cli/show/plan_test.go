package show

import (
	"slices"
	"testing"

	"github.com/waybill-dev/waybill/internal/pipeline"
)

// TestAPlanWithoutStepsSaysWhy: in a pipeline that is frozen for good, a new deployment does nothing.
func TestAPlanWithoutStepsSaysWhy(t *testing.T) {
	t.Parallel()
	frozen := PlanDocument{Pipeline: "greeter", Revision: "3f2c9a1", Todo: TodoShip, New: 1, Ends: []pipeline.ExpectedEnd{
		{Deployment: 1, Label: "3f2c9a1", Status: pipeline.StatusActive, Reason: "greeter is frozen by ana",
			Who: "waybill pipeline thaw greeter"}}}
	want := []string{"greeter#1 (3f2c9a1) goes no further: greeter is frozen by ana (waybill pipeline thaw greeter)"}
	if got := ShipPlan(frozen, Style{}); !slices.Equal(got, want) {
		t.Errorf("plan: %q, want %q", got, want)
	}
}

// TestAPlanThatDoesNotFinishLeadsWithWhy: steps that wait for a held deployment would take no time that is worth a
// headline.
func TestAPlanThatDoesNotFinishLeadsWithWhy(t *testing.T) {
	t.Parallel()
	held := PlanDocument{Pipeline: "greeter", Revision: "3f2c9a1", Todo: TodoShip, New: 2,
		Steps: []pipeline.PlanStep{{StepKey: pipeline.StepKey{Deployment: 2, Target: "greeter/build",
			Event: "build-completed"}, Work: true, End: 600_000_000}},
		Ends: []pipeline.ExpectedEnd{
			{Deployment: 1, Label: "88d0e17", Status: pipeline.StatusActive, Reason: "held by ana: looking"},
			{Deployment: 2, Label: "3f2c9a1", Status: pipeline.StatusActive, Reason: "batch prod is held by greeter#1",
				Who: "waybill deployment resume greeter#1"}}}
	lines := ShipPlan(held, Style{})
	want := []string{"ship of 3f2c9a1 goes no further: batch prod is held by greeter#1 (waybill deployment resume greeter#1)",
		"greeter#1 (88d0e17) goes no further: held by ana: looking"}
	if got := lines[len(lines)-2:]; !slices.Equal(got, want) {
		t.Errorf("plan: %q, want it to end with %q", lines, want)
	}
}
