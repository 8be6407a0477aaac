package promotion_test

import (
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/promotion"
)

func TestBrokenSinceIsTheFirstFailureAfterTheLastFinish(t *testing.T) {
	t.Parallel()
	at := func(minute int) time.Time { return time.Date(2026, 10, 1, 14, minute, 0, 0, time.UTC) }
	finished := func(minute int) []promotion.Fact {
		return []promotion.Fact{{Env: "prod", Event: promotion.StageFinished, At: at(minute)}}
	}
	failed := func(minute int) map[promotion.EnvName]promotion.PhaseSince {
		return map[promotion.EnvName]promotion.PhaseSince{"prod": {Phase: promotion.PhaseFailed, Since: at(minute)}}
	}
	for name, c := range map[string]struct {
		runs []promotion.Run
		want time.Time
	}{
		"nothing failed":         {[]promotion.Run{{Facts: finished(1)}}, time.Time{}},
		"two runs failed":        {[]promotion.Run{{Facts: finished(1)}, {Phases: failed(5)}, {Phases: failed(9)}}, at(5)},
		"it finished afterwards": {[]promotion.Run{{Phases: failed(5)}, {Facts: finished(7)}}, time.Time{}},
		"a person rolls back": {[]promotion.Run{{Facts: finished(1)},
			{Env: "prod", Cause: promotion.ByRollback, StartedAt: at(4)}}, at(4)},
		"another environment": {[]promotion.Run{{Env: "staging", Cause: promotion.ByRollback, StartedAt: at(4)}}, time.Time{}},
	} {
		if got := promotion.BrokenSince(c.runs, "prod"); !got.Equal(c.want) {
			t.Errorf("%s: since %v, want %v", name, got, c.want)
		}
	}
}

func TestFirstSightIsTheNewestBeforeTheRun(t *testing.T) {
	t.Parallel()
	at := func(minute int) time.Time { return time.Date(2026, 10, 1, 14, minute, 0, 0, time.UTC) }
	seen := []promotion.Sighting{{Revision: "b", At: at(1)}, {Revision: "a", At: at(2)}, {Revision: "b", At: at(3)},
		{Revision: "b", At: at(9)}}
	if got := promotion.FirstSight(seen, promotion.Run{Revision: "b", StartedAt: at(5)}); !got.Equal(at(3)) {
		t.Errorf("b was seen at %v, want %v", got, at(3))
	}
	if got := promotion.FirstSight(seen, promotion.Run{Revision: "c", StartedAt: at(5)}); !got.Equal(at(5)) {
		t.Errorf("c was seen at %v, want the start of its run", got)
	}
}
