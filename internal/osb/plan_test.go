package osb

import (
	"strings"
	"testing"
)

// TestAnotherPlanWantsTheOldParametersToBeItsOwn checks an update whose parameters stay.
func TestAnotherPlanWantsTheOldParametersToBeItsOwn(t *testing.T) {
	t.Parallel()
	c := parse(t, strings.Replace(checked, "description: x\n    plans:", "description: x\n    plan_updateable: true\n    plans:", 1))
	for parameters, want := range map[Canonical]string{`{"size":2}`: "new update", `{"size":"2"}`: "400 InvalidRequest"} {
		s := subject(t, "ready")
		s.Row.Applied.PlanID, s.Row.Applied.Parameters = "plain", parameters
		s.Row.Asked = *s.Row.Applied
		update := Update{AcceptsIncomplete: true, ServiceID: "folder", PlanID: "small"}
		change, err := c.CheckUpdate(update, s.PlanID())
		if err != nil {
			t.Fatal(err)
		}
		if got := show(t, s.Patch(update, change)); got != want {
			t.Errorf("%s: got %s, want %s", parameters, got, want)
		}
	}
}
