package show

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/build"
)

func TestTheHistoryOfABuildSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	after := func(d time.Duration, status build.Status, attempt int, reason string) build.Update {
		return build.Update{Timestamp: at.Add(d), Status: status, Attempt: attempt, Reason: reason}
	}
	d := BuildDocument{Plan: &build.Plan{Steps: []build.PlanStep{{ID: 1, Stage: "test", Name: "unit"},
		{ID: 2, Stage: "test", Name: "vet"}, {ID: 3, Stage: "deploy", Name: "apply", After: []int{1, 2}}}},
		Updates: map[int][]build.Update{
			0: {after(0, build.Running, 0, "")},
			1: {after(0, build.Scheduling, 1, ""), after(time.Second, build.Backoff, 1, "exit\nstatus 1"),
				after(2*time.Second, build.Scheduling, 2, "0 of 3 nodes fit")},
		}}
	got := strings.Join(BuildHistory(d, at.Add(10*time.Second)), "\n")
	want := `
03:04:05.000  10.0s  build         Running
03:04:05.000  1.0s   test/unit     Scheduling
03:04:06.000  1.0s   test/unit     Backoff     exit …
03:04:07.000  8.0s   test/unit     Scheduling  attempt 2  0 of 3 nodes fit
                     test/vet      Pending     waits for a place among the steps that run at a time
                     deploy/apply  Pending     waits for test/unit, test/vet`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
