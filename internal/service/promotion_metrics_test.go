package service

import (
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
)

// 6.6.0 fails in prod and is rolled back by hand; 6.7.0 repairs it.
func TestARollbackRestoresAnEnvironment(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)
	at := func(minute int) time.Time { return from.Add(time.Duration(minute) * time.Minute) }
	done := func(minute int) []promotion.Fact {
		return []promotion.Fact{{Env: "prod", Event: promotion.EnvPromoted, At: at(minute - 1)}, {Env: "prod", Event: promotion.StageFinished, At: at(minute)}}
	}
	past := promotions.Past{
		Sightings: []promotion.Sighting{{Seq: 1, Revision: "6.5.4", At: at(0)}, {Seq: 2, Revision: "6.6.0", At: at(100)}, {Seq: 3, Revision: "6.7.0", At: at(200)}},
		Runs: []promotion.Run{
			{Number: 1, Revision: "6.5.4", Cause: promotion.ByCandidate, StartedAt: at(2), Facts: done(10)},
			{Number: 2, Revision: "6.6.0", Was: "6.5.4", Cause: promotion.ByCandidate, StartedAt: at(102),
				Phases: map[promotion.EnvName]promotion.PhaseSince{"prod": {Phase: promotion.PhaseFailed, Since: at(110)}}},
			{Number: 3, Revision: "6.5.4", Was: "6.6.0", Cause: promotion.ByRollback, Env: "prod", StartedAt: at(115), Facts: done(130)},
			{Number: 4, Revision: "6.7.0", Was: "6.6.0", Cause: promotion.ByCandidate, StartedAt: at(202), Facts: done(230)},
			{Number: 5, Revision: "6.8.0", Was: "6.7.0", Cause: promotion.ByCandidate, StartedAt: at(240)},
		},
	}
	m := stageMetrics("prod", endedIn(past, "prod"), 0, from, 1).All
	if m.Deployments != 3 || m.Changes != 4 || m.Failures != 1 {
		t.Errorf("%d deployments, %d changes, %d failures; want 3, 4, 1", m.Deployments, m.Changes, m.Failures)
	}
	if m.Restore == nil || time.Duration(m.Restore.P50) != 20*time.Minute {
		t.Errorf("restored in %+v, want 20 minutes", m.Restore)
	}
	if m.LeadTime == nil || time.Duration(m.LeadTime.P50) != 10*time.Minute || time.Duration(m.LeadTime.P95) != 30*time.Minute {
		t.Errorf("lead time %+v, want 10 and 30 minutes", m.LeadTime)
	}
}
