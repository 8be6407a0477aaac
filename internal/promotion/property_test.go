package promotion_test

import (
	"flag"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/waybill-dev/waybill/internal/promotion"
)

// onlyProperty limits the properties that fail a test. A mutation of test/mutation has to break the one that it names.
var onlyProperty = flag.String("property", "", "fail on this property alone")

// TestPropertiesHoldInRandomHistories decides after each event of random histories and checks the plan. The histories
// together reach every case, so that no property holds only because nothing was there to break it.
func TestPropertiesHoldInRandomHistories(t *testing.T) {
	t.Parallel()
	reached, histories := map[string]int{}, 0
	play := func(t *rapid.T) {
		histories++
		h := newHistory(t)
		h.reached = reached
		h.begin()
		h.checked()
		for range pick(t, "events", 10, 20, 40) {
			name := h.happen()
			if plan := h.checked(); len(plan.Runs) > 0 {
				t.Logf("%s, %s: %v", h.Now.Format(time.TimeOnly), name, len(plan.Runs))
			}
		}
	}
	var missing []string
	for range 6 { // a case that a hundred histories have missed has more chances
		rapid.Check(t, play)
		missing = slices.DeleteFunc(slices.Clone(cases), func(name string) bool { return reached[name] > 0 })
		if len(missing) == 0 || *onlyProperty != "" || histories < 100 {
			return
		}
		t.Logf("%d histories have not reached %q", histories, missing)
	}
	t.Errorf("%d histories have not reached %q, but %v", histories, missing, reached)
}

// breaks fails the test because a property is broken.
func (h *history) breaks(property, format string, args ...any) {
	h.t.Helper()
	if *onlyProperty == "" || *onlyProperty == property {
		h.t.Fatalf(property+": "+format+"\n"+h.dump(), args...)
	}
}

// all compares values with their unexported fields, such as those of windows.
var all = cmp.Exporter(func(reflect.Type) bool { return true })

// checked decides, checks the plan and records it.
func (h *history) checked() promotion.Plan {
	h.begun = map[promotion.AttemptKey]bool{}
	before := cloned(h.Input)
	plan := promotion.Decide(h.Input)
	if !reflect.DeepEqual(before, h.Input) {
		h.breaks("InputUntouched", "%s", cmp.Diff(before, h.Input, all))
		h.Input = before
	}
	for _, change := range plan.Runs {
		if change.End != promotion.Running && runOf(h.Input, promotion.Plan{}, change.Run.Number).Number != 0 {
			h.reached["InputUntouched"]++
		}
	}
	if again := promotion.Decide(reordered(h.Input)); !reflect.DeepEqual(again, plan) {
		h.breaks("OrderFree", "two plans from one input:\n%s", cmp.Diff(plan, again, all))
	}
	h.checkPlan(plan)
	h.record(plan)
	next := promotion.Decide(h.Input)
	h.checkIdempotent(plan, next)
	quiet := h.quiet(next)
	h.checkRecheck(quiet)
	h.checkLive(quiet)
	h.checkReturns(quiet)
	h.countCases(quiet)
	return plan
}

// quiet records a plan and decides again until nothing is written, and returns the last plan.
func (h *history) quiet(plan promotion.Plan) promotion.Plan {
	for range 5 {
		h.checkPlan(plan)
		h.record(plan)
		if !writes(plan) {
			return plan
		}
		plan = promotion.Decide(h.Input)
	}
	h.breaks("RecheckIsHonest", "the plan does not become quiet")
	return plan
}

// cloned returns a deep copy of an input.
func cloned(in promotion.Input) promotion.Input {
	deepen(reflect.ValueOf(&in).Elem())
	return in
}

// deepen replaces the pointers, slices and maps in a value by copies. Unexported fields stay as they are.
func deepen(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			c := reflect.New(v.Type().Elem())
			c.Elem().Set(v.Elem())
			deepen(c.Elem())
			v.Set(c)
		}
	case reflect.Slice:
		if !v.IsNil() {
			c := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
			reflect.Copy(c, v)
			for i := range c.Len() {
				deepen(c.Index(i))
			}
			v.Set(c)
		}
	case reflect.Map:
		if !v.IsNil() {
			c := reflect.MakeMapWithSize(v.Type(), v.Len())
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			for iter := v.MapRange(); iter.Next(); {
				key.SetIterKey(iter)
				value.SetIterValue(iter)
				deepen(value)
				c.SetMapIndex(key, value)
			}
			v.Set(c)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() && f.Kind() != reflect.String {
				deepen(f)
			}
		}
	}
}

// reordered returns an input with new maps, in another order.
func reordered(in promotion.Input) promotion.Input {
	in.Seen, in.Attempts, in.Proposals = maps.Clone(in.Seen), maps.Clone(in.Attempts), maps.Clone(in.Proposals)
	in.Gates, in.Inputs = maps.Clone(in.Gates), maps.Clone(in.Inputs)
	return in
}

// checkPlan checks the properties of a plan that was not recorded yet.
func (h *history) checkPlan(plan promotion.Plan) {
	for i := range plan.Verdicts {
		h.checkVerdict(i, plan)
	}
	for _, change := range plan.Runs {
		if by := change.Run.Cause; change.End == promotion.Running && h.isStopped() &&
			(by == promotion.ByFailure || by == promotion.ByDrift) {
			h.breaks("FreezeWins", "run %d (%s) of %s starts", change.Run.Number, by, change.Run.Env)
		}
	}
	h.checkStarts(plan)
	h.checkFacts(plan)
}

// checkVerdict checks the properties of one verdict of a plan that was not recorded yet.
func (h *history) checkVerdict(i int, plan promotion.Plan) {
	v, e := plan.Verdicts[i], h.Spec.Environments[i]
	if v.Phase != promotion.PhaseComplete {
		h.reached["WhyOrStep"]++
		if len(v.Why)+len(v.Do) == 0 {
			h.breaks("WhyOrStep", "%s is %s, without a reason and a step", e.Name, v.Phase)
		}
	}
	for _, s := range v.Do {
		if s.Cancel || !isForward(e, s) {
			continue
		}
		w := step{h: h, env: e, step: s, run: runOf(h.Input, plan, s.Run), plan: plan}
		for _, b := range w.broken() {
			if b.isBroken {
				h.breaks(b.property, "%s %s into %s by run %d (%s)", s.Op, s.Revision, e.Name, s.Run, w.run.Cause)
			}
		}
	}
}

// isForward reports whether a step brings a revision into an environment, or starts a gate before that.
func isForward(e promotion.Environment, s promotion.Step) bool {
	return s.Op == promotion.OpPropose || s.Op == promotion.OpMerge || s.Op == promotion.OpNotify ||
		s.Op == promotion.OpGate && isOf(e, s.Gate, promotion.Before)
}

// isOf reports whether an environment has a gate of a time.
func isOf(e promotion.Environment, name string, when promotion.GateWhen) bool {
	return slices.Contains(e.Gates, promotion.Gate{Name: name, When: when})
}

// runOf returns a run of an input or of a plan.
func runOf(in promotion.Input, plan promotion.Plan, number int64) promotion.Run {
	for _, change := range plan.Runs {
		if change.Run.Number == number && change.End == promotion.Running {
			return change.Run
		}
	}
	for _, r := range in.Runs {
		if r.Number == number {
			return r
		}
	}
	return promotion.Run{}
}

// step is a step into an environment, in the world in which it was decided.
type step struct {
	h    *history
	env  promotion.Environment
	step promotion.Step
	run  promotion.Run
	plan promotion.Plan
}

// broken reports for each property whether the step breaks it, in a fixed order.
func (s *step) broken() []struct {
	property string
	isBroken bool
} {
	cause := s.cause(s.run)
	isReturn := cause == promotion.ByRollback || cause == promotion.ByFailure
	isGate := s.step.Op == promotion.OpGate // a gate does not wait for the reasons after it
	return []struct {
		property string
		isBroken bool
	}{
		{"NoBlindPromotion", isBlind(s.h.Input, s.env) || !isReturn &&
			!s.predecessors(func(p promotion.Environment) bool { return !isBlind(s.h.Input, p) })},
		{"OrderKept", !isReturn && !s.predecessors(s.hasHad)},
		{"NoOldOverNew", !isReturn && s.isNewerThere()},
		{"PromotedOnce", s.has(promotion.EnvPromoted) || s.has(promotion.StageFinished)},
		{"ApprovalBinds", !isGate && !s.isApproved(cause) && !s.has(promotion.ApprovalGranted)},
		{"HoldWins", cause != promotion.ByRollback && s.isHeld()},
		{"FreezeWins", s.h.isStopped()},
		{"WindowWins", !isGate && !isReturn && s.isClosed()},
		{"FirstIsLeftAlone", s.env.Name == s.h.Spec.Environments[0].Name},
		{"ByHandIsLeft", s.env.Strategy == promotion.ByHand},
		{"GatesWait", !isGate && !isReturn && !s.h.havePassed(s.run, s.env, promotion.Before)},
		{"DeclineWins", cause != promotion.ByRollback && s.isDeclined()},
	}
}

// isStopped reports whether the pipeline is suspended or frozen.
func (h *history) isStopped() bool { return h.Spec.Suspend || h.Frozen.InForce(h.Now) }

// cause returns the cause of a run, or of the run of this environment that it repeats.
func (s *step) cause(r promotion.Run) promotion.RunCause {
	for r.Cause == promotion.ByRetry || r.Cause == promotion.ByDrift {
		of := runOf(s.h.Input, s.plan, r.Repeats)
		if of.Env == "" {
			return r.Cause
		}
		if of.Cause == promotion.ByRollback || of.Cause == promotion.ByFailure {
			if r.Cause == promotion.ByDrift {
				return promotion.ByFailure
			}
			return promotion.ByRollback
		}
		r = of
	}
	return r.Cause
}

// isBlind reports whether too few states of an environment are known.
func isBlind(in promotion.Input, e promotion.Environment) bool {
	unknown := 0
	for _, id := range e.Targets {
		if class, _, _ := in.Seen[id].At(in.Now); class == promotion.Unknown {
			unknown++
		}
	}
	return unknown > len(e.Targets)-e.Need
}

// predecessors reports whether as many predecessors as are needed are as requested.
func (s *step) predecessors(is func(promotion.Environment) bool) bool {
	have := 0
	for _, name := range s.env.DependsOn {
		if is(*env(&s.h.Spec, name)) {
			have++
		}
	}
	return have == len(s.env.DependsOn) || s.env.Any && have > 0
}

// hasHad reports whether an environment is ready at the revision of the step, or finished it before.
func (s *step) hasHad(p promotion.Environment) bool {
	ready := 0
	for _, id := range p.Targets {
		if class, _, _ := s.h.Seen[id].At(s.h.Now); class == promotion.Ready &&
			s.h.Seen[id].Applied == s.step.Revision {
			ready++
		}
	}
	if ready >= p.Need && len(p.Targets) > 0 {
		return true
	}
	return slices.ContainsFunc(s.h.Runs, func(r promotion.Run) bool {
		return r.Revision == s.step.Revision && slices.ContainsFunc(r.Facts, func(f promotion.Fact) bool {
			return f.Env == p.Name && f.Event == promotion.StageFinished
		})
	})
}

// isNewerThere reports whether a target has a newer revision.
func (s *step) isNewerThere() bool {
	order := func(r promotion.Revision) (seq int64) {
		for _, sighting := range s.h.Sightings {
			if sighting.Revision == r {
				seq = sighting.Seq
			}
		}
		if n := s.plan.Sighting; n != nil && n.Revision == r {
			seq = n.Seq
		}
		return seq
	}
	return slices.ContainsFunc(s.env.Targets, func(id promotion.TargetID) bool {
		t := s.h.Seen[id]
		class, _, _ := t.At(s.h.Now)
		return class != promotion.Unknown && t.Applied != s.step.Revision && t.Attempted != s.step.Revision &&
			(order(t.Applied) > order(s.step.Revision) || order(t.Attempted) > order(s.step.Revision))
	})
}

// has reports whether the run has an entry of the environment, also one that the plan adds.
func (s *step) has(event promotion.Event) bool {
	return slices.ContainsFunc(slices.Concat(s.run.Facts, verdictFacts(s.plan)), func(f promotion.Fact) bool {
		return f.Run == s.run.Number && f.Env == s.env.Name && f.Event == event
	})
}

func verdictFacts(plan promotion.Plan) (list []promotion.Fact) {
	for _, v := range plan.Verdicts {
		list = append(list, v.Facts...)
	}
	return list
}

// isApproved reports whether enough people have approved this step.
func (s *step) isApproved(cause promotion.RunCause) bool {
	a := s.env.Approval
	switch {
	case a == nil || cause == promotion.ByRollback:
		return true
	case cause == promotion.ByFailure && (s.env.Rollback == nil || !s.env.Rollback.Manual):
		return true
	}
	people := map[string]bool{}
	for _, in := range s.h.Intents {
		if in.Kind == promotion.Approve && in.Run == s.run.Number && in.Env == s.env.Name &&
			in.Revision == s.step.Revision {
			if len(a.By) == 0 || in.By.Name == "ana" || slices.Contains(in.By.Groups, "ops") {
				people[in.By.Name] = true
			}
		}
	}
	return len(people) >= a.Count
}

// isHeld reports whether a hold is in force.
func (s *step) isHeld() bool { return s.h.isHeld(s.env, s.step.Revision) }

// isHeld reports whether a hold of an environment, or of all, is in force for a revision.
func (h *history) isHeld(e promotion.Environment, r promotion.Revision) bool {
	ends := func(until time.Time) bool { return !until.IsZero() && !h.Now.Before(until) }
	if hold := e.Hold; hold != nil && !ends(hold.Until) && (hold.Revision == "" || hold.Revision == r) {
		return true
	}
	held := map[promotion.EnvName]bool{}
	for _, in := range h.Intents {
		switch in.Kind {
		case promotion.HoldBack:
			held[in.Env] = held[in.Env] || !ends(in.Until)
		case promotion.Unhold:
			held[in.Env] = false
		}
	}
	return held[""] || held[e.Name]
}

// isClosed reports whether a window that counts for the step is closed.
func (s *step) isClosed() bool {
	if len(s.env.Windows) == 0 || s.env.AutoMerge != nil && s.env.Strategy == promotion.PullRequest &&
		s.step.Op == promotion.OpPropose {
		return false
	}
	isOverridden := slices.ContainsFunc(s.h.Intents, func(in promotion.Intent) bool {
		return in.Kind == promotion.Override && in.Env == s.env.Name
	})
	return !isOverridden && !s.env.Windows.At(s.h.Now).Open
}

// checkIdempotent checks that a recorded plan is not decided again. A cancelation makes room for another step.
func (h *history) checkIdempotent(recorded, again promotion.Plan) {
	if len(recorded.Runs) > 0 || writes(recorded) {
		h.reached["Idempotent"]++
	}
	if len(again.Runs) > 0 || again.Sighting != nil || again.Latest != recorded.Latest ||
		!again.LatestSince.Equal(recorded.LatestSince) {
		h.breaks("Idempotent", "a second plan has %+v %v", again.Runs, again.Sighting)
	}
	for i, v := range again.Verdicts {
		if len(v.Facts) > 0 {
			h.breaks("Idempotent", "a second plan has facts of %s: %s", v.Env, facts(v))
		}
		if was := recorded.Verdicts[i]; !writes(recorded) && len(recorded.Runs) == 0 && v.Phase != was.Phase {
			h.breaks("Idempotent", "a second plan has %s as %s, the first as %s", v.Env, v.Phase, was.Phase)
		}
		if !strings.Contains(steps(recorded.Verdicts[i]), "cancel") && len(v.Do) > 0 {
			h.breaks("Idempotent", "a second plan has steps of %s: %s after %s", v.Env, steps(v),
				steps(recorded.Verdicts[i]))
		}
	}
}

// checkRecheck checks that before Recheck the clock alone changes nothing of a quiet plan but the beginning of a phase.
func (h *history) checkRecheck(plan promotion.Plan) {
	later := h.Input
	limit := 100 * time.Hour
	if !plan.Recheck.IsZero() {
		h.reached["RecheckIsHonest"]++
		limit = plan.Recheck.Sub(h.Now) - 1
		if limit < 0 {
			h.breaks("RecheckIsHonest", "Recheck %v is not after %v", plan.Recheck, h.Now)
			return
		}
	}
	for _, at := range []time.Duration{limit, limit / 2, min(limit, time.Second)} {
		later.Now = h.Now.Add(at)
		then := promotion.Decide(later)
		if got, want := timeless(then), timeless(plan); !reflect.DeepEqual(got, want) || then.Recheck.Before(plan.Recheck) &&
			!then.Recheck.IsZero() {
			h.breaks("RecheckIsHonest", "%v later, before Recheck %v (-now +then):\n%s", at, plan.Recheck, cmp.Diff(want, got, all))
		}
	}
}

// timeless returns a plan without the beginnings of phases and the time of the next one.
func timeless(plan promotion.Plan) promotion.Plan {
	plan.Recheck = time.Time{} // windows that never close are searched for their end in parts
	plan.Verdicts, plan.Also = slices.Clone(plan.Verdicts), slices.Clone(plan.Also)
	for _, list := range [][]promotion.Verdict{plan.Verdicts, plan.Also} {
		for i := range list {
			list[i].Since = time.Time{}
		}
	}
	return plan
}
