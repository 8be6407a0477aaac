package promotion_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// TestEveryRunEndsOnceFaultsStop checks Progress: after a random history, controllers, hosts, gates and people do their
// part, and a new revision comes. It reaches all environments, and no run is left.
func TestEveryRunEndsOnceFaultsStop(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t)
		for range rapid.IntRange(0, 25).Draw(t, "events") {
			h.happen()
			h.record(promotion.Decide(h.Input))
		}
		h.calm()
		h.bring(0, "z", 0)
		for range 300 {
			plan := promotion.Decide(h.Input)
			h.record(plan)
			if !h.help(plan) {
				break
			}
		}
		h.checkDone(promotion.Decide(h.Input))
	})
}

// calm ends all faults, and what people have set against promotions.
func (h *history) calm() {
	h.after(time.Second).Frozen, h.Spec.Suspend = nil, false
	h.Spec.Environments = slices.Clone(h.Spec.Environments)
	h.intend(promotion.Unhold, "")
	for i := range h.Spec.Environments {
		e := &h.Spec.Environments[i]
		if e.Hold = nil; len(e.Targets) == 0 {
			e.Targets, e.Need = []promotion.TargetID{{Namespace: string(e.Name)}}, 1
			h.bring(i, "a", 0)
		}
		for _, id := range e.Targets {
			if s := h.Seen[id]; s.Class != promotion.Ready {
				h.sees(id.Namespace + "=a")
			}
		}
		h.intend(promotion.Unhold, e.Name)
	}
}

// help does one thing that a plan waits for, and reports whether there was any.
func (h *history) help(plan promotion.Plan) bool {
	if keys := h.live(); len(keys) > 0 {
		key := keys[0]
		h.endAttempt(key, "done")
		if key.Op == promotion.OpGate {
			gate := promotion.GateKey{Run: key.Run, Env: key.Env, Gate: key.Gate}
			h.Gates[gate], h.passed[gate] = promotion.GateResult{Passed: true, At: h.Now}, true
		}
		return true
	}
	for i, v := range plan.Verdicts {
		if h.helpEnv(i, v) {
			return true
		}
	}
	if plan.Recheck.IsZero() || plan.Recheck.Sub(noon) > 2000*time.Hour {
		return writes(plan) || len(plan.Runs) > 0
	}
	h.Now = plan.Recheck
	return true
}

// helpEnv does one thing for an environment.
func (h *history) helpEnv(i int, v promotion.Verdict) bool {
	e := h.Spec.Environments[i]
	for _, r := range v.Why {
		switch r.Code {
		case promotion.WhyWaitingApproval:
			for _, name := range []string{"ana", "dan"} {
				h.intend(promotion.Approve, e.Name, func(in *promotion.Intent) {
					in.Run, in.Revision, in.By = v.Run, v.Want, admission.Person{Name: name, Groups: []string{"ops"}}
				})
			}
			return true
		case promotion.WhyPromotedByHand, promotion.WhyRollingOut, promotion.WhyTargetFailed,
			promotion.WhyRollbackFailed:
			if !slices.ContainsFunc(v.Why, func(r promotion.Reason) bool {
				return strings.HasPrefix(string(r.Code),
					"Predecessor")
			}) {
				h.bring(i, string(v.Want), 0)
				return true
			}
		case promotion.WhyWaitingMerge, promotion.WhyChecksFailed:
			p := h.Proposals[e.Name]
			needs := p.Foreign || p.Conflict || e.AutoMerge == nil || p.Checks != promotion.ChecksPassed
			if p.State != promotion.Open || p.Revision != v.Want || !needs {
				continue
			}
			h.changes(e.Name, func(p *promotion.Proposal) {
				if p.Foreign || p.Conflict || e.AutoMerge == nil {
					p.State, p.At = promotion.Merged, h.Now
				}
				p.Checks = promotion.ChecksPassed
			})
			return true
		}
	}
	return false
}

// checkDone checks that all environments are complete at the newest revision and no run is left.
func (h *history) checkDone(plan promotion.Plan) {
	for _, v := range plan.Verdicts {
		if v.Phase != promotion.PhaseComplete || v.Want != "z" {
			h.breaks("Progress", "%s is %s at %s: %+v", v.Env, v.Phase, v.Want, v.Why)
		}
	}
	for _, r := range h.Runs {
		if r.End == promotion.Running {
			h.breaks("Progress", "run %d of %s %s still runs", r.Number, r.Env, r.Revision)
		}
	}
}

// TestSmallWorldsFollowTheLiteralPolicy checks SeedEquivalence in all worlds of three environments with up to two targets
// each: without options and facts the step is that of the default policy in its literal form.
func TestSmallWorldsFollowTheLiteralPolicy(t *testing.T) {
	t.Parallel()
	states := []string{"a", "b", "!a", "!b", "a>b", "a!b", ""}
	var worlds [][]string // the states of one environment
	for _, one := range states {
		worlds = append(worlds, []string{one})
		for _, two := range states {
			worlds = append(worlds, []string{one, two})
		}
	}
	count := 0
	for _, dev := range [][]string{{"b"}, {"b", "b"}, {"b", "a"}, {"!b"}, {"b", "!b"}} {
		for _, staging := range worlds {
			for _, prod := range worlds {
				w := newWorld()
				for i, states := range [][]string{dev, staging, prod} {
					e := &w.Spec.Environments[i]
					e.Need, e.Targets = len(states), nil
					for k, s := range states {
						id := promotion.TargetID{Namespace: fmt.Sprintf("%s-%d", e.Name, k)}
						e.Targets = append(e.Targets, id)
						w.Seen[id] = seen(s, w.Now)
					}
				}
				if got, want := proposals(promotion.Decide(w.Input)), literal(w.Input); got != want {
					t.Errorf("SeedEquivalence: dev %q staging %q prod %q: promotes to %q, want %q", dev, staging, prod, got, want)
				}
				count++
			}
		}
	}
	if count != 5*56*56 {
		t.Errorf("checked %d worlds", count)
	}
}

// proposals returns the environments into which a plan promotes.
func proposals(plan promotion.Plan) string {
	var names []string
	for _, v := range plan.Verdicts {
		if strings.Contains(steps(v), "propose") {
			names = append(names, string(v.Env)+" "+string(v.Want))
		}
	}
	return strings.Join(names, ", ")
}

// literal follows the default policy word for word. If all targets of the first environment are healthy and run the same
// revision, carry that revision. Visit the other environments in order. If all targets of one run it and are healthy,
// continue. If any target already has it, also if it was attempted only, stop. Otherwise promote there and stop.
func literal(in promotion.Input) string {
	var current promotion.Revision
	for i, e := range in.Spec.Environments {
		all, any := true, false
		for k, id := range e.Targets {
			s := in.Seen[id]
			if i == 0 && k == 0 {
				current = s.Applied
			}
			all = all && s.Class == promotion.Ready && s.Applied == current
			any = any || s.Applied == current || s.Attempted == current
		}
		switch {
		case all:
			continue
		case i == 0 || any:
			return ""
		}
		return string(e.Name) + " " + string(current)
	}
	return ""
}

// dump returns the runs for people.
func (h *history) dump() string {
	var b strings.Builder
	for _, r := range h.Runs {
		fmt.Fprintf(&b, "run %d %s env %q cause %s repeats %d started %s end %q\n", r.Number, r.Revision, r.Env,
			r.Cause, r.Repeats, r.StartedAt.Format(time.TimeOnly), r.End)
		for _, f := range r.Facts {
			fmt.Fprintf(&b, "  %s %s %s\n", f.At.Format(time.TimeOnly), f.Env, f.Event)
		}
	}
	for _, in := range h.Intents {
		fmt.Fprintf(&b, "%s %s %s %s in run %d by %s\n", in.At.Format(time.TimeOnly), in.Kind, in.Env, in.Revision, in.Run, in.By.Name)
	}
	fmt.Fprintf(&b, "seen %v\nproposals %+v\nattempts %+v\n", h.Sightings, h.Proposals, h.Attempts)
	return b.String()
}
