package promotion_test

import (
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/promotion"
)

// refusal is a decision of a person that a revision does not come into an environment, as the history remembers it.
type refusal struct {
	env      promotion.EnvName // "": all
	revision promotion.Revision
	at       time.Time
}

// isDeclined reports whether a refusal of the revision of the step is in force: neither a retry, nor an acceptance of one that
// was rejected everywhere, nor a newer revision came after it. One that was rejected everywhere stays so when a newer one comes.
func (s *step) isDeclined() bool {
	return slices.ContainsFunc(s.h.refusals, func(f refusal) bool {
		if f.revision != s.step.Revision || f.env != "" && f.env != s.env.Name {
			return false
		}
		for _, in := range s.h.Intents {
			isLater := !in.At.Before(f.at) // at one time, either may have come first
			if isLater && in.Kind == promotion.Retry && (in.Env == "" || in.Env == s.env.Name) &&
				(in.Revision == "" || in.Revision == f.revision) {
				return false
			}
			if isLater && f.env == "" && in.Kind == promotion.AcceptAll && in.Revision == f.revision {
				return false
			}
		}
		isNewer := func(n promotion.Sighting) bool { return !n.At.Before(f.at) }
		return f.env == "" || s.plan.Sighting == nil && !slices.ContainsFunc(s.h.Sightings, isNewer)
	})
}

// havePassed reports whether all gates of a time have given a good answer in a run.
func (h *history) havePassed(r promotion.Run, e promotion.Environment, when promotion.GateWhen) bool {
	return !slices.ContainsFunc(e.Gates, func(g promotion.Gate) bool {
		return g.When == when && !h.passed[promotion.GateKey{Run: r.Number, Env: e.Name, Gate: g.Name}]
	})
}

// checkFacts checks that approvals are enough when they are recorded, and that a finish comes after gates and soak. An approval in
// the log counts also when the definition has changed since.
func (h *history) checkFacts(plan promotion.Plan) {
	for _, f := range verdictFacts(plan) {
		e, r := *env(&h.Spec, f.Env), runOf(h.Input, plan, f.Run)
		if s := (&step{h: h, env: e, run: r, plan: plan, step: promotion.Step{Revision: r.Revision}}); f.Event ==
			promotion.ApprovalGranted && !s.isApproved(s.cause(r)) {
			h.breaks("ApprovalBinds", "run %d is approved in %s", f.Run, f.Env)
		}
		if f.Event != promotion.StageFinished {
			continue
		}
		if !h.havePassed(r, e, promotion.After) {
			h.breaks("GatesWait", "%s finishes run %d before its gates", f.Env, f.Run)
		}
		isOverridden := slices.ContainsFunc(h.Intents, func(in promotion.Intent) bool {
			return in.Kind == promotion.Override && in.Env == e.Name
		})
		if since, isReady := h.readySince(e, r.Revision); !isOverridden && (!isReady || h.Now.Sub(since) < e.Soak) {
			h.breaks("SoakWaits", "%s finishes run %d at %s, ready since %s", f.Env, f.Run, h.Now, since)
		}
	}
}

// stay is a time during which an environment was ready at a revision whenever it was observed.
type stay struct {
	revision promotion.Revision
	since    time.Time
}

// readySince returns since when an environment has been ready at a revision.
func (h *history) readySince(e promotion.Environment, r promotion.Revision) (since time.Time, isReady bool) {
	if n := h.tally(e, r); n.ready < e.Need {
		return since, false
	}
	if s := h.stays[e.Name]; s.revision == r {
		return s.since, true
	}
	return h.Now, true
}

// tally has the numbers of an environment's targets by their state relative to a revision.
type tally struct{ unknown, ready, failed, there int }

// tally counts the targets of an environment.
func (h *history) tally(e promotion.Environment, r promotion.Revision) (n tally) {
	for _, id := range e.Targets {
		s := h.Seen[id]
		class, _, _ := s.At(h.Now)
		switch isAt := s.Applied == r || s.Attempted == r; {
		case class == promotion.Unknown:
			n.unknown++
		case class == promotion.Ready && s.Applied == r:
			n.ready++
			n.there++
		case isAt && class == promotion.Failed:
			n.failed++
			n.there++
		case isAt:
			n.there++
		}
	}
	return n
}

// observeStays remembers which environments are ready now.
func (h *history) observeStays() {
	for _, e := range h.Spec.Environments {
		var now stay
		for _, id := range e.Targets {
			r := h.Seen[id].Applied
			if since, isReady := h.readySince(e, r); isReady {
				now = stay{revision: r, since: since}
			}
		}
		h.stays[e.Name] = now
	}
}

// checkStarts checks StartsOnce: an attempt is made only where none with its key is live, and that of a gate a second time only if
// the first was canceled, which does not happen while the world stays as it is.
func (h *history) checkStarts(plan promotion.Plan) {
	for _, v := range slices.Concat(plan.Verdicts, plan.Also) {
		for _, s := range v.Do {
			a, isMade := h.Attempts[s.Key()]
			if s.Cancel {
				h.checkCancel(plan, v, s)
				continue
			}
			if isMade && a.Status == promotion.AttemptLive {
				h.breaks("StartsOnce", "%s of %s in run %d is live and made again", s.Op, v.Env, s.Run)
			}
			if s.Op != promotion.OpGate {
				continue
			}
			h.reached["StartsOnce"]++
			if isMade && a.Status != promotion.AttemptCanceled {
				h.breaks("StartsOnce", "gate %s of %s in run %d is %s and started again", s.Gate, v.Env, s.Run, a.Status)
			}
			if h.begun[s.Key()] {
				h.breaks("StartsOnce", "gate %s of %s in run %d is started twice at one time", s.Gate, v.Env, s.Run)
			}
			h.begun[s.Key()] = true
		}
	}
}

// checkCancel checks that an attempt is ended for a reason.
func (h *history) checkCancel(plan promotion.Plan, v promotion.Verdict, s promotion.Step) {
	h.reached["LiveEnds"]++
	e, r := *env(&h.Spec, v.Env), runOf(h.Input, plan, s.Run)
	if isEnded(plan, r) {
		return
	}
	if s.Run == v.Run {
		if stopped := (&step{h: h, env: e, run: r, plan: plan, step: promotion.Step{Revision: r.Revision}}); len(v.Why) == 0 &&
			!h.isStopped() && !stopped.isHeld() && !stopped.isDeclined() {
			h.breaks("LiveEnds", "%s of %s in run %d is canceled without a reason", s.Op, v.Env, s.Run)
		}
		return
	}
	if s.Op == promotion.OpGate && isOf(e, s.Gate, promotion.After) && h.isRollingOut(plan, e, r, v) {
		h.breaks("LiveEnds", "gate %s of %s is canceled while run %d is rolled out there", s.Gate, v.Env, s.Run)
	}
}

// isEnded reports whether a run was superseded, before a plan or by it.
func isEnded(plan promotion.Plan, r promotion.Run) bool {
	return r.End == promotion.Superseded || slices.ContainsFunc(plan.Runs, func(c promotion.RunChange) bool {
		return c.Run.Number == r.Number && c.End == promotion.Superseded
	})
}

// isRollingOut reports whether a run has a rollout in progress in an environment that wants a newer run: under Newest, that
// replaces it only if it has failed or has taken too long.
func (h *history) isRollingOut(plan promotion.Plan, e promotion.Environment, r promotion.Run, v promotion.Verdict) bool {
	newer := runOf(h.Input, plan, v.Run)
	if h.Spec.OnNewRevision != promotion.Newest || r.Env != "" || newer.Env != "" || newer.Number < r.Number ||
		r.End != promotion.Running || isEnded(plan, r) || e.Name == h.Spec.Environments[0].Name {
		return false
	}
	promoted := r.StartedAt
	all := slices.Concat(r.Facts, verdictFacts(plan))
	for _, change := range plan.Runs {
		all = append(all, change.Facts...)
	}
	isPromoted := false
	for _, f := range all {
		if f.Run != r.Number || f.Env != e.Name {
			continue
		}
		switch f.Event {
		case promotion.EnvPromoted:
			promoted, isPromoted = f.At, true
		case promotion.StageFinished, promotion.StageFailed:
			return false
		}
	}
	return isPromoted && h.Now.Before(promoted.Add(h.Spec.RolloutTimeout)) && h.tally(e, r.Revision).failed == 0
}

// checkLive checks LiveEnds: attempts that are live once a plan is quiet may continue.
func (h *history) checkLive(plan promotion.Plan) {
	for _, key := range h.live() {
		i := slices.IndexFunc(h.Spec.Environments, func(e promotion.Environment) bool { return e.Name == key.Env })
		if i < 0 || key.Op == promotion.OpClose {
			continue
		}
		e, v, r := h.Spec.Environments[i], plan.Verdicts[i], runOf(h.Input, plan, key.Run)
		isForward := key.Op != promotion.OpGate
		why := ""
		switch {
		case isEnded(plan, r):
			why = "its run was superseded"
		case len(e.Targets) > 0 && isBlind(h.Input, e):
		case isForward && h.isStopped():
			why = "the pipeline is suspended or frozen"
		case v.Run != 0 && v.Run != key.Run && isForward:
			why = "the environment wants another run"
		case v.Run != 0 && v.Run != key.Run && !h.isRollingOut(plan, e, r, v) && !h.isOlderRollout(e, r, v):
			why = "the environment wants another run, and this one has no rollout here"
		case isForward && h.isHeld(e, r.Revision) && (&step{h: h, plan: plan}).cause(r) != promotion.ByRollback:
			why = "the environment is held"
		}
		if why != "" {
			h.breaks("LiveEnds", "%s of %s in run %d continues although %s", key.Op, key.Env, key.Run, why)
		}
	}
}

// isOlderRollout reports whether an older run may still finish in an environment, because targets have its revision.
func (h *history) isOlderRollout(e promotion.Environment, r promotion.Run, v promotion.Verdict) bool {
	return h.Spec.OnNewRevision == promotion.Newest && r.Env == "" && r.Number < v.Run && r.End == promotion.Running &&
		h.tally(e, r.Revision).there > 0
}
