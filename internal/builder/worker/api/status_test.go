package api

import (
	"testing"

	workerv1 "github.com/waybill-dev/waybill/api/worker/v1"
	"github.com/waybill-dev/waybill/internal/build"
)

// TestEveryStatusHasANumber: a reader must not take a status for one that is not set.
func TestEveryStatusHasANumber(t *testing.T) {
	t.Parallel()
	seen := map[workerv1.Status]build.Status{}
	for _, s := range []build.Status{build.Pending, build.Scheduling, build.Initializing, build.Running, build.Backoff, build.Completed,
		build.Failed, build.Canceled, build.TimedOut, build.Skipped, build.Reused, build.Lost} {
		number := workerv1.StatusOf(string(s))
		if other, twice := seen[number]; twice || number == workerv1.Status_STATUS_UNSPECIFIED {
			t.Errorf("%s has the number of %q: %v", s, other, number)
		}
		seen[number] = s
	}
}
