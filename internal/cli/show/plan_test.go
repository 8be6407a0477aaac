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
		{Deployment: 1, Label: "3f2c9a1", Status: pipeline.StatusActive, Reason: "greeter is frozen by ana", Who: "waybill pipeline thaw greeter"}}}
	want := []string{"greeter#1 (3f2c9a1) goes no further: greeter is frozen by ana (waybill pipeline thaw greeter)"}
	if got := ShipPlan(frozen, Style{}); !slices.Equal(got, want) {
		t.Errorf("plan: %q, want %q", got, want)
	}
}
