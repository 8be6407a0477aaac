package promotion_test

import (
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/promotion"
)

// carrying returns a world in which run 1 carries b and staging is in some state. events are the entries that
// staging has. Revisions a and c were sighted before b.
func carrying(policy promotion.Policy, staging string, events ...promotion.Event) *world {
	w := newWorld(func(s *promotion.Spec) { s.OnNewRevision = policy })
	w.sees("dev=b prod=a staging=" + staging)
	w.Sightings = []promotion.Sighting{{Seq: 1, Revision: "a", At: noon.Add(-3 * time.Hour)},
		{Seq: 2, Revision: "c", At: noon.Add(-2 * time.Hour)},
		{Seq: 3, Revision: "b", At: noon.Add(-time.Hour)}}
	w.Latest, w.LatestSince = "b", noon.Add(-time.Hour)
	run := promotion.Run{Number: 1, Revision: "b", Cause: promotion.ByCandidate,
		Environments: []promotion.EnvName{"dev", "staging", "prod"},
		StartedAt:    noon.Add(-time.Hour), Phases: map[promotion.EnvName]promotion.PhaseSince{}}
	for _, e := range []promotion.Event{promotion.StageStarted, promotion.StageFinished} {
		run.Facts = append(run.Facts, promotion.Fact{Run: 1, Env: "dev", Event: e, At: noon.Add(-time.Hour)})
	}
	for _, e := range events {
		run.Facts = append(run.Facts, promotion.Fact{Run: 1, Env: "staging", Event: e, At: noon.Add(-time.Hour)})
	}
	w.Runs = []promotion.Run{run}
	return w
}

// newer makes c newer than b.
func (w *world) newer() *world {
	w.Sightings[1], w.Sightings[2] = promotion.Sighting{Seq: 2, Revision: "b", At: noon.Add(-2 * time.Hour)},
		promotion.Sighting{Seq: 3, Revision: "c", At: noon.Add(-time.Hour)}
	return w
}

// TestPredecessorHasPassed plays the table of passed, seen from the successor.
func TestPredecessorHasPassed(t *testing.T) {
	t.Parallel()
	const started, finished = promotion.StageStarted, promotion.StageFinished
	spec := func(w *world, changes ...func(*promotion.Spec)) *world {
		for _, c := range changes {
			c(&w.Spec)
		}
		return w
	}
	soaks := func(s *promotion.Spec) { env(s, "staging").Soak = time.Hour }
	gate := func(s *promotion.Spec) {
		env(s, "staging").Gates = []promotion.Gate{{Name: "smoke", When: promotion.After}}
	}
	settling := func(w *world) *world {
		w.Spec.Settle, w.Latest, w.LatestSince = time.Hour, "c", noon.Add(-time.Minute)
		return w.sees("dev=c")
	}
	ready := func(w *world) *world {
		w.Runs[0].Phases["staging"] = promotion.PhaseSince{Phase: promotion.PhaseSoaking, Since: noon.Add(-time.Hour)}
		return w
	}
	for _, c := range []struct {
		name string
		w    *world
		want string // reasons of prod; "": it has passed
	}{
		{"without targets", spec(carrying("Interrupt", "b", started, finished), targets("staging", 0)),
			"PredecessorUnhealthy"},
		{"more than n − need targets Unknown/yes", carrying("Interrupt", "?", started, finished), "PredecessorUnknown"},
		{"more than n − need targets Unknown/no", carrying("Interrupt", "?", started), "PredecessorUnknown"},
		{"more than n − need targets Unknown/one may be missing",
			spec(carrying("Interrupt", "b", started), targets("staging", 2, "staging", "s2", "s3")).sees("s2=b s3=?"),
			""},
		{"its own predecessors have not passed", carrying("Interrupt", "b").sees("dev=?"),
			"PredecessorWaiting EnvironmentNotReady"},
		{"≥ need Ready at R, soaked, gates passed/yes", carrying("Interrupt", "b", started, finished), ""},
		{"≥ need Ready at R, soaked, gates passed/no", carrying("Interrupt", "b", started), ""},
		{"≥ need Ready at R, soaked, gates passed/soaked", ready(spec(carrying("Interrupt", "b", started), soaks)), ""},
		{"≥ need Ready at R, soaked, gates passed/kept, yes", carrying("Interrupt", "~b", started, finished),
			"Rechecking"},
		{"≥ need Ready at R, soaked, gates passed/kept, no", carrying("Interrupt", "~b", started),
			"PredecessorVerifying"},
		{"partly at R", spec(carrying("Interrupt", "b", started, finished),
			targets("staging", 2, "staging", "s2")).sees("s2=a"), "PredecessorUnhealthy"},
		{"unhealthy", carrying("Interrupt", "!b", started, finished), "PredecessorUnhealthy"},
		{"soaking", spec(carrying("Interrupt", "b", started, finished), soaks), "PredecessorSoaking"},
		{"verifying", spec(carrying("Interrupt", "b", started, finished), gate), "PredecessorVerifying"},
		{"a gate has failed", spec(carrying("Interrupt", "b", started), gate).gate("staging", "smoke", false),
			"PredecessorUnhealthy"},
		{"all known targets on newer sighted revisions/yes, Finish",
			carrying("Finish", "c", started, finished).newer(), ""},
		{"all known targets on newer sighted revisions/yes, Newest",
			carrying("Newest", "c", started, finished).newer(), ""},
		{"all known targets on newer sighted revisions/yes, Interrupt",
			carrying("Interrupt", "c", started, finished).newer(), "PredecessorMovedOn"},
		{"all known targets on newer sighted revisions/yes, a candidate settles",
			settling(carrying("Interrupt", "c", started, finished).newer()), ""},
		{"all known targets on newer sighted revisions/no", carrying("Finish", "c", started).newer(),
			"PredecessorMovedOn"},
		{"all known targets on newer sighted revisions/attempted", carrying("Finish", "a>c", started).newer(),
			"PredecessorMovedOn"},
		{"anything else/yes", carrying("Finish", "a", started, finished), "PredecessorWentBack"},
		{"anything else/no", carrying("Finish", "a", started), "PredecessorWaiting"},
		{"anything else/partly newer", spec(carrying("Finish", "c", started, finished).newer(),
			targets("staging", 2, "staging", "s2")).sees("s2=a"), "PredecessorWentBack"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v := verdict(t, promotion.Decide(c.w.Input), "prod")
			_, got, _ := strings.Cut(codes(v), ": ")
			if got != c.want {
				t.Errorf("got %q, want %q (%+v)", got, c.want, v.Why)
			}
			if c.want == "" && steps(v) != "propose" {
				t.Errorf("does %q, want propose", steps(v))
			}
		})
	}
}

// TestAnyPredecessorSuffices: the state of the rest does not matter, even if it is unknown.
func TestAnyPredecessorSuffices(t *testing.T) {
	t.Parallel()
	split := func(mode bool) *world {
		w := newWorld(func(s *promotion.Spec) {
			us := promotion.Environment{Name: "us", Targets: []promotion.TargetID{{Namespace: "us"}}, Need: 1,
				DependsOn: []promotion.EnvName{"dev"},
				Strategy:  promotion.PullRequest}
			s.Environments = append(s.Environments[:2:2], us, s.Environments[2])
			s.Environments[3].DependsOn, s.Environments[3].Any = []promotion.EnvName{"staging", "us"}, mode
		})
		return w.sees("dev=b prod=a")
	}
	for _, c := range []struct {
		name string
		any  bool
		sees string
		want string
	}{
		{"All/both", false, "staging=b us=b", "Promoting"},
		{"All/one", false, "staging=b us=a", "Blocked: PredecessorWaiting"},
		{"All/none", false, "staging=a us=?", "Blocked: PredecessorWaiting PredecessorUnknown"},
		{"All/one is being checked again", false, "staging=b us=~b", "Blocked: PredecessorVerifying"},
		{"Any/one", true, "staging=a us=b", "Promoting"},
		{"Any/one, the other unknown", true, "staging=? us=b", "Promoting"},
		{"Any/one, the other is being checked again", true, "staging=~b us=b", "Promoting"},
		{"Any/none", true, "staging=a us=?", "Blocked: PredecessorWaiting PredecessorUnknown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := split(c.any).sees(c.sees)
			if got := codes(verdict(t, promotion.Decide(w.Input), "prod")); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
