package pipeline

import "testing"

// TestARefusalHasOneLineOfTheReason: the reason of an automatic rejection ends with the output of a service.
func TestARefusalHasOneLineOfTheReason(t *testing.T) {
	t.Parallel()
	e := New("greeter")
	e.rejected[1] = &hold{by: "waybill", reason: "host oak did not stay up; its last lines:\npanic: no config\ngoroutine 1", rejected: true}
	const want = "revision r2 was rejected by waybill: host oak did not stay up; its last lines: …"
	if got := e.refuseRejected(1, "r2").Error(); got != want {
		t.Errorf("refused with %q, want %q", got, want)
	}
}

func TestStepsOfAnEarlierServerAreThoseOfTheGraph(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		state       DeploymentState
		done, total int
	}{
		{DeploymentState{Done: 12, Total: 36, WorkDone: 4, Work: 13}, 4, 13},
		{DeploymentState{Done: 12, Total: 36}, 12, 36},
		{DeploymentState{}, 0, 0},
	} {
		if done, total := c.state.Steps(); done != c.done || total != c.total {
			t.Errorf("%+v: %d of %d, want %d of %d", c.state, done, total, c.done, c.total)
		}
	}
}
