package simulation_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/cron"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

// TestRollbackUnderFaults ships a revision that fails in the middle and is rolled back, and then, after
// a freeze, one that is good, and catches up a host that joins. Whatever goes wrong, the log has the
// same facts at the end as without faults, and the hosts run the same.
func TestRollbackUnderFaults(t *testing.T) {
	t.Parallel()
	var want map[string]bool
	bubbletest.Test(t, func(t *testing.T) { want = newReturning(t, fate{}).shipThree() })
	if len(want) < 100 {
		t.Fatalf("without faults the log has only %d facts", len(want))
	}
	for seed := *first; seed < *first+uint64(*count); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			reproducible(t, seed)
			bubbletest.Test(t, func(t *testing.T) {
				sameFacts(t, newReturning(t, faulty(seed)).shipThree(), want)
			})
		})
	}
}

// TestReturnsUnderFaults ships revisions through a pipeline with rollbacks, catch-ups, approvals and
// windows, that is edited, frozen and thawed meanwhile, while people reject, roll back and catch up. At
// the end the last revision is on every host of the last definition.
func TestReturnsUnderFaults(t *testing.T) {
	t.Parallel()
	for seed := *first; seed < *first+uint64(*count); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			reproducible(t, seed)
			bubbletest.Test(t, func(t *testing.T) {
				f := faulty(seed)
				f.broken = f.pick(8, "broken")
				returning{newSimulationOf(t, f, town(0))}.meddle()
			})
		})
	}
}

// town returns a version of the pipeline shop in which what fails is rolled back or held, hosts that
// join catch up, east asks for an approval, and lab is closed for three minutes of ten.
func town(version int) pipeline.Definition {
	d := shop(version)
	for i := range d.Stages {
		s := &d.Stages[i]
		switch s.Name {
		case "lab":
			s.OnFailure = pipeline.RollBack
			s.Windows = []admission.Window{{Kind: cron.Allow, Schedule: "*/10 * * * *", Duration: action.Duration(7 * time.Minute), Timezone: "UTC"}}
			s.Groups[0].CatchUp = true
		case "east":
			s.OnFailure, s.Approval = pipeline.RollBack, &admission.Approval{Count: 1, Self: true}
			s.Groups[0].CatchUp = true
		case "west":
			s.OnFailure = pipeline.Hold
		}
	}
	return d
}

// returning is a simulation in which revisions come back.
type returning struct{ *simulation }

// newReturning starts the roles with a pipeline of one stage after another, so that faults do not decide
// how far a deployment is when a step fails.
func newReturning(t *testing.T, f fate) returning {
	t.Helper()
	r := returning{newSimulationOf(t, f, inLine(false))}
	r.fleet.mu.Lock()
	defer r.fleet.mu.Unlock()
	r.fleet.dooms = func(step action.StepRef) bool { return step.Revision == 2 && step.Target == "shop/east/all/fir" }
	return r
}

// inLine returns the pipeline of newReturning. With joined it has one more host in west.
func inLine(joined bool) pipeline.Definition {
	d := town(0)
	d.Stages[2].Groups[0].MaxParallel.N = 1
	d.Stages[3] = stage("west", "east", 1, "yew")
	d.Stages[3].Groups[0].CatchUp = true
	if joined {
		d.Stages[3].Groups[0].Hosts = append(d.Stages[3].Groups[0].Hosts, pipeline.Host{Name: "zelkova", URL: "local://zelkova", Arch: "any"})
	}
	return d
}

// shipThree ships three revisions one after another, and returns the facts of the log.
func (s returning) shipThree() map[string]bool {
	s.ship("r1")
	s.ended(1)
	s.ship("r2") // fails on fir, the second host of east
	s.ended(3)   // the rollback is #3
	s.freeze()
	s.ship("r3")
	pauseFor(s.t.Context(), 30000)
	s.thaw()
	s.ended(4)
	s.apply(inLine(true))
	s.ended(5) // the catch-up is #5
	s.settle()
	want := map[string]string{}
	for _, host := range []string{"ash", "birch", "elm", "fir", "gum", "yew", "zelkova"} {
		want["local://"+host] = "r3"
	}
	if got := s.running(); !maps.Equal(got, want) {
		s.t.Errorf("hosts run %v, want r3 everywhere", got)
	}
	if s.seen.kinds[journal.Rollback] != 1 || s.seen.kinds[journal.CatchUp] != 1 {
		s.t.Errorf("deployments by kind: %v", s.seen.kinds)
	}
	facts := map[string]bool{}
	for key := range s.seen.facts {
		facts[fmt.Sprint(key)] = true
	}
	s.close()
	return facts
}

// ended waits until so many deployments are there and have ended.
func (s returning) ended(number int) {
	s.t.Helper()
	s.until(fmt.Sprint("the end of #", number), func(all []journal.Deployment) bool {
		s.approve(all)
		return len(all) >= number && allEnded(all)
	})
}

// approve approves what waits for it.
func (s returning) approve(all []journal.Deployment) {
	for _, d := range all {
		if d.Status == pipeline.StatusActive {
			// a refusal is an answer
			_, _ = s.service.Approve(s.t.Context(), service.Approval{Pipeline: "shop", Stage: "east", Deployment: d.Number, By: "bob"})
		}
	}
}

// What follows may be refused, which is an answer.

func (s returning) freeze() {
	_, _ = s.service.Freeze(s.t.Context(), "shop", admission.Freeze{By: "ana"})
}

func (s returning) thaw() { _, _ = s.service.Thaw(s.t.Context(), "shop", "ana", "") }

// meddle does what people do, at random moments, and in the end all that deployments may wait for.
func (s returning) meddle() {
	s.ship("r1")
	s.ended(1)
	revision := 1
	for n := range 25 {
		pauseFor(s.t.Context(), s.fate.pick(30000, "people", n))
		if s.fate.happens(25, "ship", n) && revision < 5 {
			revision++
			s.ship(fmt.Sprint("r", revision))
			continue
		}
		s.do(n)
	}
	s.fleet.repair()
	s.ship("last")
	var next time.Time
	s.until("the end", func(all []journal.Deployment) bool {
		if now := time.Now(); !now.Before(next) { // most of it is refused, and costs as much
			s.relieve(all)
			next = now.Add(30 * time.Second)
		}
		return s.isOver(all)
	})
	s.settle()
	s.close()
	s.judgeHosts()
}

// do does one of the things that people do.
func (s returning) do(n int) {
	ctx := s.t.Context()
	label := fmt.Sprint("r", 1+s.fate.pick(5, "revision", n))
	target := []string{"", "lab", "east", "west", "east/all/elm"}[s.fate.pick(5, "target", n)]
	number := int64(1 + s.fate.pick(8, "of", n))
	switch s.fate.pick(11, "do", n) {
	case 0:
		s.freeze()
		pauseFor(ctx, s.fate.pick(30000, "frozen", n))
		s.thaw()
	case 1:
		_, _ = s.service.Freeze(ctx, "shop", admission.Freeze{By: "ana", Until: s.clock.now().Add(20 * time.Second)})
	case 2:
		_, _ = s.service.Rollback(ctx, service.TargetRequest{Pipeline: "shop", Target: target, By: "ana"})
	case 3:
		_, _ = s.service.CatchUp(ctx, service.TargetRequest{Pipeline: "shop", Target: target, By: "ana"})
	case 4:
		_, _ = s.service.RejectRevision(ctx, "shop", label, "ana", "looking")
	case 5:
		_, _ = s.service.AcceptRevision(ctx, "shop", label, "ana", "looking")
	case 6:
		s.apply(town(s.fate.pick(shops, "edit", n)))
	case 7:
		s.command(number, []string{"retry", "resume", "cancel"}[s.fate.pick(3, "command", n)])
	case 8:
		_, _ = s.service.Approve(ctx, service.Approval{Pipeline: "shop", Stage: "east", Deployment: number, By: "bob", Reject: true})
	default:
		if all, err := s.log.Deployments(ctx, journal.DeploymentQuery{Pipeline: "shop"}); err == nil {
			s.approve(all)
		}
	}
}

// relieve ends the freeze, and accepts, approves, resumes and retries everything. What failed and cannot
// be retried keeps its batches under hold, so it is canceled.
func (s returning) relieve(all []journal.Deployment) {
	s.thaw()
	for _, d := range all {
		if d.Status == pipeline.StatusActive || d.Status == pipeline.StatusFailed {
			_, _ = s.service.AcceptRevision(s.t.Context(), "shop", d.Label, "ana", "looking")
		}
		for _, stage := range []string{"lab", "mid", "east", "west"} {
			if d.Status == pipeline.StatusActive {
				_ = s.service.Command(s.t.Context(), service.Ref{Pipeline: "shop", Number: d.Number},
					service.Command{Kind: "resume", Target: stage, By: "ana"})
			}
		}
	}
	s.approve(all)
	s.help(all)
	for _, d := range all {
		if now, err := s.log.Deployment(s.t.Context(), "shop", d.Number); err == nil && now.Status == pipeline.StatusFailed {
			s.command(d.Number, "cancel")
		}
	}
}

// isOver reports whether the last revision has finished and nothing else is under way.
func (s returning) isOver(all []journal.Deployment) bool {
	for _, d := range all {
		if d.Label == "last" && d.Kind == journal.Forward {
			return d.Status == pipeline.StatusFinished && allEnded(all)
		}
	}
	return false
}
