package promotion_test

import (
	"maps"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/promotion"
)

// enough bounds the count of a case: the search for one makes a decision of its own.
const enough = 20

// ofReturn marks the case of a rule in the way of an automatic rollback.
const ofReturn = " of an automatic rollback"

// cases lists the states that random histories have to reach. That of a rule which is in the way of an environment is a state in which the
// environment would be promoted, or would finish, without it.
var cases = []string{
	"NoBlindPromotion", "NoBlindPromotion of a predecessor", "OrderKept", "NoOldOverNew", "PromotedOnce", "ApprovalBinds",
	"HoldWins", "HoldWins" + ofReturn, "FreezeWins", "FreezeWins" + ofReturn, "FreezeWins by suspend", "WindowWins",
	"FirstIsLeftAlone", "ByHandIsLeft", "GatesWait", "GatesWait at the end", "SoakWaits", "DeclineWins", "StartsOnce",
	"StartsOnce of an older run", "LiveEnds", "ReturnIsDue", "ReturnsOnce",
	"WhyOrStep", "RecheckIsHonest", "Idempotent", "OrderFree", "InputUntouched",
}

// obstacle is a thing in the way of an environment, which a property is about.
type obstacle struct {
	name string
	// lift removes it from an input whose environments are a copy, and reports whether there was any. It replaces slices and maps.
	lift func(in *promotion.Input, e *promotion.Environment, v promotion.Verdict) bool
}

// obstacles lists those of rules.
func obstacles() []obstacle {
	return []obstacle{
		{"NoBlindPromotion", func(in *promotion.Input, e *promotion.Environment, _ promotion.Verdict) bool {
			return isBlind(*in, *e) && reveal(in, e, "elsewhere")
		}},
		{"NoBlindPromotion of a predecessor", func(in *promotion.Input, e *promotion.Environment, v promotion.Verdict) bool {
			revealed := false
			for _, name := range e.DependsOn {
				revealed = reveal(in, env(&in.Spec, name), v.Want) || revealed
			}
			return revealed
		}},
		{"OrderKept", func(_ *promotion.Input, e *promotion.Environment, _ promotion.Verdict) bool {
			e.DependsOn = nil
			return true
		}},
		{"NoOldOverNew", func(in *promotion.Input, e *promotion.Environment, v promotion.Verdict) bool {
			ahead := slices.ContainsFunc(v.Why, func(r promotion.Reason) bool { return r.Code == promotion.WhyAhead })
			if in.Seen = maps.Clone(in.Seen); !ahead {
				return false
			}
			for _, id := range e.Targets {
				in.Seen[id] = promotion.Seen{Class: promotion.Ready, Applied: "elsewhere"}
			}
			return ahead
		}},
		{"PromotedOnce", forgetPromotion},
		{"ApprovalBinds", func(_ *promotion.Input, e *promotion.Environment, _ promotion.Verdict) bool {
			had := e.Approval != nil
			e.Approval = nil
			return had
		}},
		{"HoldWins", func(in *promotion.Input, e *promotion.Environment, _ promotion.Verdict) bool {
			had := without(&in.Intents, func(in promotion.Intent) bool { return in.Kind == promotion.HoldBack }) || e.Hold != nil
			e.Hold = nil
			return had
		}},
		{"FreezeWins", func(in *promotion.Input, _ *promotion.Environment, _ promotion.Verdict) bool {
			had := in.Frozen != nil
			in.Frozen = nil
			return had
		}},
		{"FreezeWins by suspend", func(in *promotion.Input, _ *promotion.Environment, _ promotion.Verdict) bool {
			had := in.Spec.Suspend
			in.Spec.Suspend = false
			return had
		}},
		{"WindowWins", func(_ *promotion.Input, e *promotion.Environment, _ promotion.Verdict) bool {
			had := len(e.Windows) > 0
			e.Windows = nil
			return had
		}},
		{"ByHandIsLeft", func(_ *promotion.Input, e *promotion.Environment, _ promotion.Verdict) bool {
			was := e.Strategy
			e.Strategy = promotion.PullRequest
			return was == promotion.ByHand
		}},
		{"GatesWait", func(_ *promotion.Input, e *promotion.Environment, _ promotion.Verdict) bool {
			return dropGates(e, promotion.Before)
		}},
		{"GatesWait at the end", func(_ *promotion.Input, e *promotion.Environment, _ promotion.Verdict) bool {
			return dropGates(e, promotion.After)
		}},
		{"SoakWaits", func(_ *promotion.Input, e *promotion.Environment, _ promotion.Verdict) bool {
			had := e.Soak > 0
			e.Soak = 0
			return had
		}},
		{"DeclineWins", acceptAgain},
	}
}

// reveal has targets that are unknown ready at a revision.
func reveal(in *promotion.Input, e *promotion.Environment, r promotion.Revision) (revealed bool) {
	in.Seen = maps.Clone(in.Seen)
	for _, id := range e.Targets {
		if class, _, _ := in.Seen[id].At(in.Now); class == promotion.Unknown {
			in.Seen[id] = promotion.Seen{Class: promotion.Ready, Applied: r, Attempted: r}
			revealed = true
		}
	}
	return revealed
}

// forgetPromotion removes all traces of the promotion of a run into an environment.
func forgetPromotion(in *promotion.Input, e *promotion.Environment, v promotion.Verdict) (had bool) {
	in.Runs = slices.Clone(in.Runs)
	for i := range in.Runs {
		had = without(&in.Runs[i].Facts, func(f promotion.Fact) bool {
			return f.Run == v.Run && f.Env == e.Name && (f.Event == promotion.EnvPromoted || f.Event == promotion.StageFinished)
		}) || had
	}
	in.Proposals, in.Attempts = maps.Clone(in.Proposals), maps.Clone(in.Attempts)
	delete(in.Proposals, e.Name)
	for key := range in.Attempts {
		if key.Run == v.Run && key.Env == e.Name && key.Op != promotion.OpGate {
			delete(in.Attempts, key)
		}
	}
	return had
}

// without replaces a list by one without some elements, and reports whether it had any.
func without[E any](list *[]E, is func(E) bool) bool {
	if !slices.ContainsFunc(*list, is) {
		return false
	}
	*list = slices.DeleteFunc(slices.Clone(*list), is)
	return true
}

// dropGates removes the gates of a time.
func dropGates(e *promotion.Environment, when promotion.GateWhen) bool {
	return without(&e.Gates, func(g promotion.Gate) bool { return g.When == when })
}

// acceptAgain removes all refusals.
func acceptAgain(in *promotion.Input, e *promotion.Environment, _ promotion.Verdict) bool {
	had := without(&in.Intents, func(in promotion.Intent) bool {
		return in.Kind == promotion.Reject || in.Kind == promotion.RejectAll
	})
	if p := in.Proposals[e.Name]; p.State == promotion.Closed && !p.ClosedByUs {
		in.Proposals = maps.Clone(in.Proposals)
		delete(in.Proposals, e.Name)
		had = true
	}
	in.Attempts = maps.Clone(in.Attempts)
	for key, a := range in.Attempts {
		if a.Class == promotion.ErrDeclined {
			delete(in.Attempts, key)
			had = true
		}
	}
	return had
}

// countCases counts the cases that a quiet plan has reached.
func (h *history) countCases(plan promotion.Plan) {
	h.observeStays()
	if v := plan.Verdicts[0]; v.Phase == promotion.PhaseBlocked && v.Want != "" && h.Spec.Environments[0].Strategy != promotion.ByHand {
		h.reached["FirstIsLeftAlone"]++
	}
	live := map[promotion.EnvName]int{}
	for key, a := range h.Attempts {
		if a.Status == promotion.AttemptLive {
			if live[key.Env]++; live[key.Env] == 2 {
				h.reached["OrderFree"]++
			}
		}
	}
	for _, v := range plan.Also {
		if v.Phase == promotion.PhaseVerifying && h.hasLive(promotion.OpGate, v.Run, v.Env) {
			h.reached["StartsOnce of an older run"]++
		}
	}
	for i, v := range plan.Verdicts {
		if i == 0 || v.Want == "" || v.Phase == promotion.PhaseComplete {
			continue
		}
		for _, o := range obstacles() {
			h.countObstacle(o, i, v)
		}
	}
}

// hasLive reports whether an attempt of an operation is live.
func (h *history) hasLive(op promotion.Op, run int64, env promotion.EnvName) bool {
	return slices.ContainsFunc(h.live(), func(key promotion.AttemptKey) bool {
		return key.Op == op && key.Run == run && key.Env == env
	})
}

// countObstacle counts a state in which an obstacle alone is in the way: without it a step or the end of the environment follows.
func (h *history) countObstacle(o obstacle, i int, v promotion.Verdict) {
	property, _, _ := strings.Cut(o.name, " ")
	hasReturn := slices.Contains(cases, property+ofReturn)
	if h.reached[o.name] >= enough && (!hasReturn || h.reached[property+ofReturn] >= enough) {
		return
	}
	in := h.Input
	in.Spec.Environments = slices.Clone(in.Spec.Environments)
	if !o.lift(&in, &in.Spec.Environments[i], v) {
		return
	}
	then := promotion.Decide(in)
	next := then.Verdicts[i]
	isNext := slices.ContainsFunc(next.Do, func(s promotion.Step) bool { return !s.Cancel && isForward(in.Spec.Environments[i], s) }) ||
		slices.ContainsFunc(next.Facts, func(f promotion.Fact) bool { return f.Event == promotion.StageFinished })
	if !isNext {
		return
	}
	h.reached[o.name]++
	if hasReturn && runOf(in, then, next.Run).Cause == promotion.ByFailure {
		h.reached[property+ofReturn]++
	}
}
