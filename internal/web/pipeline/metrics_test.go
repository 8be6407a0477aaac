package pipeline

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/service"
)

// The week with the most changes has the full height, and failures are on top of successes.
func TestWeeksAreDrawnToOneScale(t *testing.T) {
	t.Parallel()
	week := func(changes, failures int) service.Week {
		return service.Week{Measures: service.Measures{Changes: changes, Failures: failures}}
	}
	got := weekBars([]service.Week{week(0, 0), week(4, 1), week(2, 0)})
	if diff := cmp.Diff([]weekBar{{0, 0, 0}, {10, 30, 10}, {20, 20, 0}}, got); diff != "" {
		t.Error(diff)
	}
	if got[1].Top() != 0 || got[1].Base() != 10 || got[2].Top() != 20 {
		t.Errorf("the bars are at %d, %d and %d, want 0, 10 and 20", got[1].Top(), got[1].Base(), got[2].Top())
	}
}
