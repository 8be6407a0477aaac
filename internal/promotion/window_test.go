package promotion_test

import (
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/cron"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// TestWindowsDelayPromotions plays the rules of windows, and the time at which the clock changes the plan.
func TestWindowsDelayPromotions(t *testing.T) {
	t.Parallel()
	in := func(kind cron.Kind, schedule string, length time.Duration, zone string) admission.Window {
		return admission.Window{Kind: kind, Schedule: schedule, Duration: action.Duration(length), Timezone: zone}
	}
	const never, paris = "", "Europe/Paris"
	office := in(cron.Allow, "0 9 * * *", 8*time.Hour, "")
	lunch := in(cron.Deny, "0 12 * * *", time.Hour, "")
	gap := in(cron.Allow, "30 2 * * *", time.Hour, paris)
	night := in(cron.Allow, "0 23 * * 6", 4*time.Hour, paris)
	for _, c := range []struct {
		name    string
		windows []admission.Window
		now     string
		open    bool
		recheck string
	}{
		{"none", nil, "2026-03-13T03:00:00Z", true, never},
		{"Allow/before its start", []admission.Window{office}, "2026-03-13T08:59:59Z", false, "2026-03-13T09:00:00Z"},
		{"Allow/start included", []admission.Window{office}, "2026-03-13T09:00:00Z", true, "2026-03-13T17:00:00Z"},
		{"Allow/before its end", []admission.Window{office}, "2026-03-13T16:59:59Z", true, "2026-03-13T17:00:00Z"},
		{"Allow/end not", []admission.Window{office}, "2026-03-13T17:00:00Z", false, "2026-03-14T09:00:00Z"},
		{"Allow/one of two covers now", []admission.Window{office, in(cron.Allow, "0 20 * * *", time.Hour, "")},
			"2026-03-13T20:30:00Z", true, "2026-03-13T21:00:00Z"},
		{"Deny/covers now", []admission.Window{office, lunch}, "2026-03-13T12:30:00Z", false, "2026-03-13T13:00:00Z"},
		{"Deny/start included", []admission.Window{office, lunch}, "2026-03-13T12:00:00Z", false,
			"2026-03-13T13:00:00Z"},
		{"Deny/before its start", []admission.Window{office, lunch}, "2026-03-13T11:59:59Z", true,
			"2026-03-13T12:00:00Z"},
		{"Deny/end not", []admission.Window{office, lunch}, "2026-03-13T13:00:00Z", true, "2026-03-13T17:00:00Z"},
		{"Deny/no Allow exists", []admission.Window{lunch}, "2026-03-13T03:00:00Z", true, "2026-03-13T12:00:00Z"},
		{"Deny/ends when the Allow has ended", []admission.Window{office, in(cron.Deny, "0 16 * * *", 2*time.Hour, "")},
			"2026-03-13T16:30:00Z", false, "2026-03-14T09:00:00Z"},
		{"spring gap/before", []admission.Window{gap}, "2026-03-29T00:59:59Z", false, "2026-03-29T01:00:00Z"},
		{"spring gap/the first instant after it", []admission.Window{gap}, "2026-03-29T01:00:00Z", true,
			"2026-03-29T02:00:00Z"},
		{"autumn repeat/the first time", []admission.Window{gap}, "2026-10-25T00:30:00Z", true, "2026-10-25T01:30:00Z"},
		{"autumn repeat/counts once", []admission.Window{gap}, "2026-10-25T01:30:00Z", false, "2026-10-26T01:30:00Z"},
		{"elapsed duration/over the gap", []admission.Window{night}, "2026-03-29T01:59:59Z", true,
			"2026-03-29T02:00:00Z"},
		{"elapsed duration/after it", []admission.Window{night}, "2026-03-29T02:00:00Z", false, "2026-04-04T21:00:00Z"},
		{"UTC by default", []admission.Window{in(cron.Allow, "0 9 * * *", time.Hour, "")}, "2026-07-01T09:30:00Z", true,
			"2026-07-01T10:00:00Z"},
		{"a zone", []admission.Window{in(cron.Allow, "0 9 * * *", time.Hour, paris)}, "2026-07-01T07:30:00Z", true,
			"2026-07-01T08:00:00Z"},
		{"of two day fields either suffices", []admission.Window{in(cron.Allow, "0 9 20 * 1", time.Hour, "")},
			"2026-03-16T09:00:00Z", true, "2026-03-16T10:00:00Z"},
		{"of two day fields either suffices/neither", []admission.Window{in(cron.Allow, "0 9 20 * 1", time.Hour, "")},
			"2026-03-17T09:00:00Z", false, "2026-03-20T09:00:00Z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := carrying(promotion.Interrupt, "b", promotion.StageStarted, promotion.StageFinished)
			env(&w.Spec, "prod").Windows = parseWindows(t, c.windows...)
			w.Now = moment(t, c.now)
			plan := promotion.Decide(w.Input)
			want, do := "Blocked: WindowClosed", ""
			if c.open {
				want, do = "Promoting", "propose"
			}
			wantVerdict(t, plan, "prod", want, do)
			if got := plan.Recheck; c.recheck == never && !got.IsZero() || c.recheck != never &&
				!got.Equal(moment(t, c.recheck)) {
				t.Errorf("decides again at %v, want %s", got.UTC(), c.recheck)
			}
		})
	}
}

func moment(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// TestHoldsKeepRevisionsOut plays the row of holds: each kind, and each end.
func TestHoldsKeepRevisionsOut(t *testing.T) {
	t.Parallel()
	const held, declined, proposes = "prod b: Blocked: Held", "prod b: Blocked: Declined",
		"prod b: Promoting: AttemptLive"
	later := func(more ...string) []string { return inStaging(append([]string{"propose prod 41"}, more...)...) }
	const again = "sighted b; see dev=b"
	playScenes(t, []scene{
		{"by spec", inStaging("spec prod.hold="), []string{held, "live: "}},
		{"by spec/of a revision", inStaging("spec prod.hold=b"), []string{held}},
		{"by spec/of another revision", inStaging("spec prod.hold=c"), []string{proposes}},
		{"by CLI", inStaging("hold prod"), []string{held}},
		{"by CLI/of the pipeline", inStaging("hold *"), []string{held, "staging b: Complete"}},
		{"by CLI/of another environment", inStaging("hold staging"), []string{proposes}},
		{"by CLI/released", inStaging("hold prod", "release prod"), []string{proposes}},
		{"by CLI/all holds of the scope are released", inStaging("hold prod; hold prod", "release prod"),
			[]string{proposes}},
		{"by CLI/a release of the pipeline", inStaging("hold prod", "release *"), []string{held}},
		{"by CLI/a release of E", inStaging("hold *", "release prod"), []string{held}},
		{"by CLI/a release does not end that of the spec", inStaging("spec prod.hold=", "release prod"),
			[]string{held}},
		{"by CLI/held again", inStaging("hold prod", "release prod", "hold prod"), []string{held}},
		{"by CLI/before until", inStaging("hold prod until=12:30", "at 12:29:59"), []string{held}},
		{"by CLI/until", inStaging("hold prod until=12:30", "at 12:30"), []string{proposes}},
		{"by CLI/a newer revision does not end it",
			inStaging("hold prod", "see dev=c", stagingPromoted, "see staging=c"),
			[]string{"prod c: Blocked: Held"}},
		{"by CLI/a person's rollback", inProd("hold prod", "at 12:01; rollback prod"),
			[]string{"prod a: Promoting: AttemptLive"}},
		{"by decline", later("close prod"), []string{declined}},
		{"by decline/not by a release", later("close prod", "release prod"), []string{declined}},
		{"by decline/a retry ends it", later("close prod", "at 12:01; retry prod"), []string{proposes}},
		{"by decline/a newer revision ends it", later("close prod", "see dev=c", stagingPromoted, "see staging=c"),
			[]string{"prod c: Promoting: AttemptLive"}},
		{"by decline/that revision again", later("close prod", "see dev=c", again), []string{declined}},
		{"by decline/that revision again, later", later("close prod", "at 12:01; see dev=c", "at 12:02; "+again),
			[]string{proposes}},
		{"by rejection", inStaging("reject prod b"), []string{declined}},
		{"by rejection/a newer revision ends it", inStaging("reject prod b", "at 12:01; see dev=c", "at 12:02; "+again),
			[]string{proposes}},
		{"by rollback", inProd("at 12:01; rollback prod", prodPromoted, "see prod=a"), []string{"prod a: Complete"}},
		{"by rollback/a newer revision ends it", inProd("at 12:01; rollback prod", prodPromoted, "see prod=a",
			"see dev=c",
			stagingPromoted, "see staging=c"), []string{"prod c: Promoting: AttemptLive"}},
		{"by rollback/a retry does not end it", inProd("at 12:01; rollback prod", prodPromoted, "see prod=a",
			"at 12:02; retry prod"), []string{"prod a: Complete"}},
	})
}
