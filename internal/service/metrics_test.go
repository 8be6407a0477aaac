package service

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/journal"
)

// at returns an hour of the first of two weeks.
func at(hour int) time.Time {
	return time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC).Add(time.Duration(hour) * time.Hour)
}

// run returns a run of prod that was committed and started at 0 and ended at an hour.
func run(revision int64, outcome string, ended int) journal.EndedRun {
	return journal.EndedRun{
		StageRun: journal.StageRun{Deployment: revision, Stage: "prod", Revision: revision, StartedAt: at(0),
			EndedAt: at(ended), Outcome: outcome, Changed: true},
		CommittedAt: at(0),
	}
}

func hours(p50, p95 int) *Spread {
	return &Spread{P50: action.Duration(time.Duration(p50) * time.Hour), P95: action.Duration(time.Duration(p95) * time.Hour)}
}

func TestStagesAreMeasured(t *testing.T) {
	t.Parallel()
	failed := run(2, "failed", 10)
	failed.FailedAt = at(8)
	retried := run(2, "finished", 10)
	retried.FailedAt = at(4)
	canceled := run(2, "canceled", 10)
	waiting := canceled
	waiting.Changed = false
	undated := run(1, "finished", 5)
	undated.CommittedAt = time.Time{}
	for name, c := range map[string]struct {
		runs []journal.EndedRun
		want Measures
	}{
		"nothing": {nil, Measures{}},
		"three deployments": {[]journal.EndedRun{run(1, "finished", 1), run(2, "finished", 5), run(3, "finished", 20)},
			Measures{Deployments: 3, PerWeek: 1.5, Changes: 3, LeadTime: hours(5, 20)}},
		"restored by another": {[]journal.EndedRun{failed, run(3, "finished", 30)},
			Measures{Deployments: 1, PerWeek: 0.5, Changes: 2, Failures: 1, FailureRate: 0.5, LeadTime: hours(30, 30), Restore: hours(22, 22)}},
		"restored by a retry": {[]journal.EndedRun{retried},
			Measures{Deployments: 1, PerWeek: 0.5, Changes: 1, Failures: 1, FailureRate: 1, LeadTime: hours(10, 10), Restore: hours(6, 6)}},
		"rolled back": {[]journal.EndedRun{run(2, "finished", 10), run(1, "finished", 14)},
			Measures{Deployments: 2, PerWeek: 1, Changes: 2, Failures: 1, FailureRate: 0.5, LeadTime: hours(10, 10), Restore: hours(4, 4)}},
		"deployed again": {[]journal.EndedRun{run(2, "finished", 10), run(2, "finished", 14)},
			Measures{Deployments: 2, PerWeek: 1, Changes: 2, LeadTime: hours(10, 10)}},
		"canceled inside":      {[]journal.EndedRun{canceled}, Measures{Changes: 1, Failures: 1, FailureRate: 1}},
		"canceled before":      {[]journal.EndedRun{waiting}, Measures{}},
		"superseded":           {[]journal.EndedRun{run(2, "superseded", 10)}, Measures{}},
		"without a known time": {[]journal.EndedRun{undated}, Measures{Deployments: 1, PerWeek: 0.5, Changes: 1}},
	} {
		if diff := cmp.Diff(c.want, stageMetrics("prod", c.runs, 0, at(0), 2).All); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

func TestRunsCountInTheWeekOfTheirEnd(t *testing.T) {
	t.Parallel()
	m := stageMetrics("prod", []journal.EndedRun{run(1, "finished", 0), run(2, "finished", 7*24-1), run(3, "finished", 7*24)}, 0, at(0), 2)
	if len(m.Weeks) != 2 || m.Weeks[0].Deployments != 2 || m.Weeks[1].Deployments != 1 || !m.Weeks[1].From.Equal(at(7*24)) {
		t.Errorf("weeks: %+v", m.Weeks)
	}
}

func TestWeeksBeginOnMonday(t *testing.T) {
	t.Parallel()
	for day := 2; day <= 8; day++ {
		last := time.Date(2026, 3, day, 23, 59, 0, 0, time.FixedZone("", -3600)).Add(-time.Hour)
		if got := monday(last); !got.Equal(at(0)) {
			t.Errorf("monday(%s) = %s", last, got)
		}
	}
	if got := monday(at(-1)); !got.Equal(at(-7 * 24)) {
		t.Errorf("the hour before: %s", got)
	}
}

// TestARevisionThatFinishedBeforeTheWindowHasNoLeadTime: it is deployed again, which counts, but was new long ago.
func TestARevisionThatFinishedBeforeTheWindowHasNoLeadTime(t *testing.T) {
	t.Parallel()
	again, next := run(2, "finished", 10), run(3, "finished", 30)
	again.CommittedAt = at(-100)
	got := stageMetrics("prod", []journal.EndedRun{again, next}, 2, at(0), 2).All
	want := Measures{Deployments: 2, PerWeek: 1, Changes: 2, LeadTime: hours(30, 30)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
