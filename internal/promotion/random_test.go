package promotion_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// history is a world in which random things happen.
type history struct {
	*world
	t    *rapid.T
	next byte           // the next new revision
	last promotion.Plan // the plan that was recorded last
	odds map[string]int // weights of events, and use of options; see odd and uses

	// Memory of the world, to judge plans by.
	refusals []refusal
	passed   map[promotion.GateKey]bool // gates that have given a good answer
	stays    map[promotion.EnvName]stay
	failures map[promotion.EnvName]failure
	begun    map[promotion.AttemptKey]bool // gates that were started since the last event
	reached  map[string]int                // counts of cases, of all histories
}

// newHistory returns a history of a random pipeline.
func newHistory(t *rapid.T) *history {
	h := &history{world: newWorld(), t: t, next: 'c', odds: map[string]int{}, passed: map[promotion.GateKey]bool{},
		stays: map[promotion.EnvName]stay{}, failures: map[promotion.EnvName]failure{}, reached: map[string]int{}}
	h.Spec.OnNewRevision = pick(t, "policy", promotion.Interrupt, promotion.Finish, promotion.Newest)
	h.Spec.OnDrift = pick(t, "drift", promotion.Hold, promotion.Promote)
	h.Spec.OnBackward = pick(t, "backward", promotion.Hold, promotion.Promote)
	h.Spec.Settle = pick(t, "settle", 0, 0, 2*time.Minute)
	h.Spec.RunTimeout = pick(t, "run timeout", time.Hour, 24*time.Hour)
	switch pick(t, "theme", "any", "failures", "revisions") {
	case "failures":
		h.Spec.OnBackward = pick(t, "backward", promotion.Promote, promotion.Promote, promotion.Hold)
		maps.Copy(h.odds, map[string]int{"rollback": 1, "gates": 1, "alarm": 1, "approval": 0, "holds": 0, "edit": 0})
	case "revisions":
		h.Spec.OnNewRevision, h.Spec.Settle = promotion.Newest, 0
		maps.Copy(h.odds, map[string]int{"gates": 1, "soak": 0, "windows": 0, "approval": 0, "holds": 0, "freeze": 0, "edit": 0})
	}
	h.Spec.Environments = nil
	for i := range pick(t, "environments", 2, 2, 3, 3, 4, 1) {
		h.Spec.Environments = append(h.Spec.Environments, h.environment(i))
	}
	isSame := pick(t, "same", true, true, true, false)
	for i := range h.Spec.Environments {
		r := "a"
		if !isSame {
			r = pick(t, "baseline", "a", "a", "b", "")
		}
		h.bring(i, r, 0)
	}
	return h
}

func pick[V any](t *rapid.T, name string, of ...V) V { return rapid.SampledFrom(of).Draw(t, name) }

// environment returns a random environment for a place in the list.
func (h *history) environment(i int) promotion.Environment {
	t, name := h.t, fmt.Sprintf("e%d", i)
	n := pick(t, "targets", 1, 1, 1, 2, 3)
	if i > 0 {
		n = pick(t, "targets", 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 0)
	}
	e := promotion.Environment{Name: promotion.EnvName(name), Need: n}
	for k := range n {
		e.Targets = append(e.Targets, promotion.TargetID{Namespace: fmt.Sprintf("%s-%d", name, k)})
	}
	if n == 3 {
		e.Need = pick(t, "need", 2, 3)
	}
	if h.uses("soak") {
		e.Soak = pick(t, "soak", 5*time.Minute, 0)
	}
	gates := 0
	if h.uses("gates") {
		gates = pick(t, "gates", 1, 1, 2)
	}
	for k := range min(gates, pick(t, "most gates", 2, min(2*i, 2))) {
		e.Gates = append(e.Gates, promotion.Gate{Name: fmt.Sprintf("g%d", k),
			When: pick(t, "when", promotion.After, promotion.After, promotion.Before)})
	}
	e.Strategy = pick(t, "strategy", promotion.PullRequest, promotion.PullRequest, promotion.PullRequest,
		promotion.PullRequest, promotion.Notification, promotion.Notification, promotion.ByHand)
	if i == 0 {
		return e
	}
	e.DependsOn = []promotion.EnvName{h.Spec.Environments[i-1].Name}
	if i > 1 && rapid.Bool().Draw(t, "two predecessors") {
		e.DependsOn = append(e.DependsOn, h.Spec.Environments[i-2].Name)
		e.Any = rapid.Bool().Draw(t, "any")
	}
	if h.uses("approval") {
		e.Approval = &admission.Approval{Count: pick(t, "count", 1, 2),
			By: pick(t, "by", nil, []string{"ana", "group:ops"})}
	}
	if h.uses("windows") {
		e.Windows = window(pick(t, "window", "0 9 * * *", "0 14 * * *", "0 */2 * * *"))
		e.Windows[0].Length = pick(t, "length", 30*time.Minute, 90*time.Minute, 3*time.Hour)
	}
	if rapid.Bool().Draw(t, "auto merge") {
		e.AutoMerge = &promotion.AutoMerge{IgnoreChecks: rapid.Bool().Draw(t, "ignore checks")}
	}
	if h.uses("holds") && rapid.Bool().Draw(t, "hold") {
		e.Hold = &promotion.SpecHold{Until: pick(t, "until", time.Time{}, noon.Add(time.Hour)),
			Revision: pick(t, "held", promotion.Revision(""), "b")}
	}
	if h.uses("rollback") {
		e.Rollback = &promotion.Rollback{After: pick(t, "after", 0, 5*time.Minute),
			Manual: rapid.Bool().Draw(t, "manual")}
	}
	return e
}

// begin lets controllers, hosts, gates and people do their part for a while, or until a later environment is in some phase:
// revisions finish, and the history starts with one on its way. In some, one has failed before.
func (h *history) begin() {
	until := pick(h.t, "until", promotion.PhaseVerifying, promotion.PhaseRollingOut, promotion.PhaseWaiting)
	fails := h.odds["rollback"] > 0 && pick(h.t, "fails", true, false)
	for range pick(h.t, "beginning", 32, 16, 24, 48, 64, 8, 0) {
		plan := promotion.Decide(h.Input)
		h.record(plan)
		h.observeStays()
		switch {
		case fails && h.isIn(promotion.PhaseRollingOut):
			h.fail()
			fails, until = false, promotion.PhaseWaiting
			continue
		case !fails && len(h.live()) == 0 != (until == promotion.PhaseVerifying) && h.isIn(until):
			return
		}
		h.after(time.Second)
		if !h.help(plan) {
			h.release()
		}
	}
}

// fail has rollouts fail for longer than an automatic rollback waits.
func (h *history) fail() {
	for i, v := range h.last.Verdicts {
		if i > 0 && v.Phase == promotion.PhaseRollingOut {
			h.bring(i, "!"+string(v.Want), 0)
		}
	}
	h.record(promotion.Decide(h.Input))
	h.after(5 * time.Minute)
}

// record records a plan.
func (h *history) record(plan promotion.Plan) {
	h.last = plan
	h.world.record(plan)
}

// event is one thing that may happen.
type event struct {
	weight int
	name   string
	happen func()
}

// events lists the things that may happen now: each live attempt may end, each open proposal may change, each gate that is waited for may
// answer, and so on. Weights of the things that disturb promotions are the history's own, so that some histories get far.
func (h *history) events() (list []event) {
	for i, v := range h.last.Verdicts {
		if i < len(h.Spec.Environments) && h.Spec.Environments[i].Name == v.Env {
			list = append(list, h.eventsOf(i, v)...)
		}
	}
	for _, key := range h.live() {
		list = append(list, event{4, "an attempt ends", func() { h.endOne(key) }})
	}
	if at := h.last.Recheck; at.After(h.Now) {
		list = append(list, event{3, "time passes until a decision is due", func() { h.Now = at }})
	}
	if h.isStopped() {
		list = append(list, event{3, "promotions resume", h.thaw})
	}
	if h.last.Latest == "" {
		list = append(list, event{6, "the first environment is ready", func() { h.ready(h.Spec.Environments[0], h.newest()) }})
	}
	releases := 3
	if h.Spec.OnNewRevision == promotion.Interrupt {
		releases = 1
	}
	if !slices.ContainsFunc(h.Runs, func(r promotion.Run) bool { return r.End == promotion.Running }) {
		releases = 10 // nothing is on its way
	}
	if h.Spec.OnNewRevision == promotion.Newest && h.isIn(promotion.PhaseVerifying) {
		releases = 20 // while an environment still verifies an older one
	}
	return append(list, event{1, "time passes", h.pass}, event{releases, "a new revision", h.release},
		event{h.odd("hold"), "an environment is held or released", func() { h.hold(h.Spec.Environments[h.anyEnv()].Name) }},
		event{h.odd("flap"), "a target changes", h.flap}, event{h.odd("outage"), "a cluster is lost", h.lose},
		event{h.odd("request"), "a person requests", h.request},
		event{h.odd("freeze"), "promotions are stopped", h.freeze}, event{h.odd("edit"), "the spec changes", h.edit})
}

// isIn reports whether a later environment is in a phase after a promotion.
func (h *history) isIn(phase promotion.Phase) bool {
	for i, v := range h.last.Verdicts {
		if i > 0 && v.Phase == phase && h.isPromoted(i) {
			return true
		}
	}
	return false
}

// odd returns the weight of a thing that disturbs promotions in this history.
func (h *history) odd(name string) int {
	if _, ok := h.odds[name]; !ok {
		h.odds[name] = pick(h.t, "odds of "+name, 0, 1, 1, 2)
	}
	return h.odds[name]
}

// uses reports whether an option is used in this history. Histories with few options show each option alone.
func (h *history) uses(option string) bool {
	if _, ok := h.odds[option]; !ok {
		h.odds[option] = pick(h.t, "use of "+option, 1, 0)
	}
	return h.odds[option] > 0 && pick(h.t, option, true, true, false)
}

// eventsOf lists the things that may happen in an environment.
func (h *history) eventsOf(i int, v promotion.Verdict) []event {
	e := h.Spec.Environments[i]
	var list []event
	if h.isPromoted(i) && v.Phase != promotion.PhaseComplete {
		list = append(list, event{4, "targets follow", func() { h.follow(i) }})
	}
	if h.Proposals[e.Name].State == promotion.Open {
		list = append(list, event{4, "a proposal changes", func() { h.changeProposal(e.Name) }})
	}
	if i > 0 && v.Want != "" && v.Want != h.newest() {
		list = append(list, event{2 * h.odd("by hand"), "a person brings the newest revision", func() { h.ready(e, h.newest()) }})
	}
	if i > 0 && v.Want != "" && v.Phase != promotion.PhaseComplete {
		list = append(list, event{h.odd("by hand"), "a person brings the revision, and it fails", func() { h.bring(i, "!"+string(v.Want), 0) }})
	}
	for _, v := range append([]promotion.Verdict{v}, h.last.Also...) {
		if v.Env == e.Name {
			list = append(list, h.eventsWaited(e, v)...)
		}
	}
	return list
}

// eventsWaited lists the things that a verdict waits for: each reason may end.
func (h *history) eventsWaited(e promotion.Environment, v promotion.Verdict) (list []event) {
	for _, why := range v.Why {
		if why.Code == promotion.WhyAttemptLive {
			list = append(list, event{h.odd("impatience"), "a retry that has nothing to end", func() { h.intend(promotion.Retry, e.Name) }})
		}
		switch why.Code {
		case promotion.WhyWaitingGate:
			list = append(list, event{3, "a gate answers", func() { h.answer(e, v.Run) }})
		case promotion.WhyWaitingApproval:
			list = append(list, event{3, "an approval", func() { h.approve(e, v) }})
		case promotion.WhyHeld:
			list = append(list, event{2, "a hold is released", func() {
				h.intend(promotion.Unhold, pick(h.t, "scope", e.Name, ""))
			}})
		case promotion.WhyTargetFailed, promotion.WhyGateFailed, promotion.WhyRollingOut, promotion.WhyAttemptLive:
			if h.odd("alarm") > 0 && why.Code != promotion.WhyAttemptLive || v.Run != 0 && runOf(h.Input, h.last, v.Run).Env != "" {
				list = append(list, event{3, "a person stops a rollout", func() { h.alarm(e) }})
			}
		}
		switch why.Code {
		case promotion.WhyTargetFailed, promotion.WhyTargetUnknown, promotion.WhyPromotedByHand, promotion.WhyRollbackFailed:
			list = append(list, event{1, "targets become ready", func() { h.ready(e, v.Want) }})
		case promotion.WhyDeclined, promotion.WhyGateFailed, promotion.WhyAttemptFailed, promotion.WhyRolloutTimedOut,
			promotion.WhyDriftedBack:
			list = append(list, event{1, "a retry", func() { h.intend(promotion.Retry, e.Name) }})
		}
	}
	return list
}

// happen lets one random thing happen, and returns its name.
func (h *history) happen() string {
	var list []event
	for _, e := range h.events() {
		for range e.weight {
			list = append(list, e)
		}
	}
	e := list[rapid.IntRange(0, len(list)-1).Draw(h.t, "event")]
	h.after(pick(h.t, "meanwhile", 0, time.Second))
	e.happen()
	return e.name
}

func (h *history) pass() {
	h.after(pick(h.t, "time", time.Second, time.Minute, 2*time.Minute, 5*time.Minute, 31*time.Minute, 2*time.Hour,
		25*time.Hour))
}

// release brings a revision to the first environment: a new one, one of before, or one that was rolled back.
func (h *history) release() {
	old, isOld := pick(h.t, "revision", "a", "b", "c", "d"), pick(h.t, "old", false, false, false, true)
	for _, r := range h.Runs {
		if r.Cause == promotion.ByFailure && r.Was != h.last.Current {
			old, isOld = string(r.Was), pick(h.t, "again", true, true, false)
		}
	}
	if !isOld {
		old = string(h.next)
		h.next++
	}
	h.bring(0, old, 0)
}

// bring sets the targets of an environment, from one on, ready at a revision.
func (h *history) bring(i int, r string, from int) {
	for _, id := range h.Spec.Environments[i].Targets[min(from, len(h.Spec.Environments[i].Targets)):] {
		h.sees(id.Namespace + "=" + r)
	}
}

// alarm has a person hold an environment, or stop all.
func (h *history) alarm(e promotion.Environment) {
	if pick(h.t, "alarm", true, false) {
		h.intend(promotion.HoldBack, e.Name)
		return
	}
	h.freeze()
}

// newest returns the revision that was seen last.
func (h *history) newest() promotion.Revision {
	if len(h.Sightings) == 0 {
		return "a"
	}
	return h.Sightings[len(h.Sightings)-1].Revision
}

// ready has all targets of an environment ready at a revision.
func (h *history) ready(e promotion.Environment, r promotion.Revision) {
	for _, id := range e.Targets {
		h.sees(id.Namespace + "=" + string(r))
	}
}

// anyEnv returns the place of a random environment.
func (h *history) anyEnv() int {
	return rapid.IntRange(0, len(h.Spec.Environments)-1).Draw(h.t, "environment")
}

// flap changes one target at random.
func (h *history) flap() {
	e := h.Spec.Environments[h.anyEnv()]
	if len(e.Targets) == 0 {
		return
	}
	id := pick(h.t, "target", e.Targets...)
	now := string(h.Seen[id].Applied)
	other := pick(h.t, "other", "a", "b", string(h.newest()))
	h.sees(id.Namespace + "=" + pick(h.t, "state", "?", "?", "!"+now, "~"+now, now, other, now+">"+other, now+"!"+other, ""))
}

// lose makes an environment unknown.
func (h *history) lose() {
	for _, id := range h.Spec.Environments[h.anyEnv()].Targets {
		h.sees(id.Namespace + "=?")
	}
}

// isPromoted reports whether the run that an environment wants was promoted there.
func (h *history) isPromoted(i int) bool {
	return slices.ContainsFunc(h.wantedRun(i).Facts, func(f promotion.Fact) bool {
		return f.Env == h.Spec.Environments[i].Name && f.Event == promotion.EnvPromoted
	})
}

// follow lets an environment follow its run, as its controllers do after a promotion.
func (h *history) follow(i int) {
	h.bring(i, pick(h.t, "outcome", "", "!")+string(h.wantedRun(i).Revision), rapid.IntRange(0, 1).Draw(h.t, "from"))
}

// wantedRun returns the run that an environment wants.
func (h *history) wantedRun(i int) promotion.Run {
	if i >= len(h.last.Verdicts) {
		return promotion.Run{}
	}
	return runOf(h.Input, promotion.Plan{}, h.last.Verdicts[i].Run)
}

// endOne ends a live attempt at random.
func (h *history) endOne(key promotion.AttemptKey) {
	h.endAttempt(key, pick(h.t, "end", "done", "done", "done", "done", "done", "failed", "asked", "declined", "moved",
		"canceled"))
}

// live returns the keys of the live attempts, sorted.
func (h *history) live() (keys []promotion.AttemptKey) {
	for key, a := range h.Attempts {
		if a.Status == promotion.AttemptLive {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b promotion.AttemptKey) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return keys
}

// endAttempt ends an attempt.
func (h *history) endAttempt(key promotion.AttemptKey, how string) {
	h.Attempts, h.Proposals = maps.Clone(h.Attempts), maps.Clone(h.Proposals)
	a := h.Attempts[key]
	a.Status, a.At = promotion.AttemptDone, h.Now
	switch how {
	case "done":
		h.succeed(key)
	case "failed":
		a.Status = promotion.AttemptFailed
	case "asked":
		a.Class = promotion.ErrAlreadyAsked
	case "declined":
		a.Status, a.Class = promotion.AttemptFailed, promotion.ErrDeclined
	case "moved":
		a.Status, a.Class = promotion.AttemptFailed, promotion.ErrHeadMoved
	case "canceled":
		a.Status = promotion.AttemptCanceled
	}
	switch {
	case key.Op == promotion.OpGate && a.Status == promotion.AttemptDone:
		h.passed[promotion.GateKey{Run: key.Run, Env: key.Env, Gate: key.Gate}] = true
	case key.Op == promotion.OpPropose && a.Class == promotion.ErrDeclined:
		h.refuse(key.Env, runOf(h.Input, promotion.Plan{}, key.Run).Revision)
	}
	h.Attempts[key] = a
}

// refuse remembers a refusal.
func (h *history) refuse(env promotion.EnvName, r promotion.Revision) {
	h.refusals = append(h.refusals, refusal{env: env, revision: r, at: h.Now})
}

// succeed does the work of an attempt.
func (h *history) succeed(key promotion.AttemptKey) {
	p := h.Proposals[key.Env]
	at := slices.IndexFunc(h.Runs, func(r promotion.Run) bool { return r.Number == key.Run })
	switch key.Op {
	case promotion.OpPropose:
		if at >= 0 {
			h.Proposals[key.Env] = promotion.Proposal{Number: p.Number + 1, Revision: h.Runs[at].Revision,
				Run: key.Run, State: promotion.Open,
				At: h.Now, Base: "b1", Head: fmt.Sprintf("h%d", p.Number+1)}
		}
	case promotion.OpMerge:
		if p.State == promotion.Open && p.Run == key.Run {
			p.State, p.At = promotion.Merged, h.Now
			h.Proposals[key.Env] = p
		}
	case promotion.OpClose:
		if p.State == promotion.Open && p.Run == key.Run {
			p.State, p.At, p.ClosedByUs = promotion.Closed, h.Now, true
			h.Proposals[key.Env] = p
		}
	}
}

// changeProposal changes an open proposal at random.
func (h *history) changeProposal(name promotion.EnvName) {
	what := pick(h.t, "change", "merge", "merge", "merge", "close", "pass", "pass", "fail", "foreign", "conflict",
		"forget")
	if what == "forget" {
		h.Proposals = maps.Clone(h.Proposals)
		delete(h.Proposals, name)
		return
	}
	h.changes(name, func(p *promotion.Proposal) {
		switch what {
		case "merge":
			p.State, p.At, p.By = promotion.Merged, h.Now, "bob"
		case "close":
			p.State, p.At, p.By = promotion.Closed, h.Now, "bob"
			h.refuse(name, p.Revision)
		case "pass":
			p.Checks = promotion.ChecksPassed
		case "fail":
			p.Checks = promotion.ChecksFailed
		case "foreign":
			p.Foreign = true
		case "conflict":
			p.Conflict = true
		}
	})
}

// answer gives the result of a gate that a run waits for.
func (h *history) answer(e promotion.Environment, run int64) {
	var waiting []promotion.GateKey
	for _, g := range e.Gates {
		key := promotion.GateKey{Run: run, Env: e.Name, Gate: g.Name}
		if _, ok := h.Attempts[promotion.AttemptKey{Run: run, Env: e.Name, Op: promotion.OpGate, Gate: g.Name}]; ok {
			waiting = append(waiting, key)
		}
	}
	if len(waiting) == 0 {
		return
	}
	key, isPassed := pick(h.t, "gate", waiting...), rapid.IntRange(0, 3).Draw(h.t, "passed") > 0
	h.Gates = maps.Clone(h.Gates)
	h.Gates[key] = promotion.GateResult{Passed: isPassed, Failed: !isPassed, At: h.Now}
	h.passed[key] = h.passed[key] || isPassed
}

// request adds a request of a person.
func (h *history) request() {
	i := h.anyEnv()
	e, r := h.Spec.Environments[i], h.wantedRun(i)
	kind := pick(h.t, "kind", promotion.Reject, promotion.Retry, promotion.Retry,
		promotion.RollBack, promotion.Override, promotion.RejectAll, promotion.AcceptAll)
	name := e.Name
	if kind == promotion.RejectAll || kind == promotion.AcceptAll {
		name = ""
	}
	h.intend(kind, name, func(in *promotion.Intent) {
		switch kind {
		case promotion.Reject, promotion.RejectAll, promotion.AcceptAll:
			in.Revision, in.Run = r.Revision, r.Number
		case promotion.RollBack:
			in.Revision = pick(h.t, "to", "", promotion.Revision("a"))
		}
		if kind == promotion.Reject || kind == promotion.RejectAll {
			h.refuse(name, r.Revision)
		}
	})
}

// hold holds or releases an environment, or all.
func (h *history) hold(name promotion.EnvName) {
	if pick(h.t, "all", false, false, true) {
		name = ""
	}
	h.intend(pick(h.t, "hold", promotion.HoldBack, promotion.Unhold), name, func(in *promotion.Intent) {
		if in.Kind == promotion.HoldBack {
			in.Until = pick(h.t, "until", time.Time{}, h.Now.Add(10*time.Minute))
		}
	})
}

// approve adds an approval, perhaps one that does not count, or twice.
func (h *history) approve(e promotion.Environment, v promotion.Verdict) {
	run := v.Run - pick(h.t, "run", int64(0), 0, 0, 1)
	by := pick(h.t, "by", admission.Person{Name: "ana"}, admission.Person{Name: "dan", Groups: []string{"ops"}},
		admission.Person{Name: "eve"})
	for range pick(h.t, "times", 1, 1, 2) {
		h.intend(promotion.Approve, e.Name, func(in *promotion.Intent) {
			in.Run, in.Revision, in.By = run, v.Want, by
		})
	}
}

// freeze stops promotions, thaw ends that.
func (h *history) freeze() {
	switch pick(h.t, "freeze", "freeze", "until", "suspend", "suspend") {
	case "freeze":
		h.Frozen = &admission.Freeze{}
	case "until":
		h.Frozen = &admission.Freeze{Until: h.Now.Add(10 * time.Minute)}
	case "suspend":
		h.Spec.Suspend = true
	}
}

func (h *history) thaw() { h.Frozen, h.Spec.Suspend = nil, false }

// edit changes the spec: it removes the last environment or adds one, or changes the inputs of promotions.
func (h *history) edit() {
	n := len(h.Spec.Environments)
	switch pick(h.t, "edit", "remove", "add", "inputs", "policy") {
	case "remove":
		if n > 1 {
			h.Spec.Environments = slices.Clone(h.Spec.Environments[:n-1])
		}
	case "add":
		if n < 4 {
			h.Spec.Environments = append(slices.Clone(h.Spec.Environments), h.environment(n))
		}
	case "inputs":
		h.Inputs = maps.Clone(h.Inputs)
		h.Inputs[h.Spec.Environments[n-1].Name] = h.Now.String()
	case "policy":
		h.Spec.OnNewRevision = pick(h.t, "policy", promotion.Interrupt, promotion.Finish, promotion.Newest)
	}
}
