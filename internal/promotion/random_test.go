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
	next byte // the next new revision
}

// newHistory returns a history of a random pipeline.
func newHistory(t *rapid.T) *history {
	h := &history{world: newWorld(), t: t, next: 'c'}
	h.Spec.OnNewRevision = pick(t, "policy", promotion.Interrupt, promotion.Finish, promotion.Newest)
	h.Spec.OnDrift = pick(t, "drift", promotion.Hold, promotion.Promote)
	h.Spec.OnBackward = pick(t, "backward", promotion.Hold, promotion.Promote)
	h.Spec.Settle = pick(t, "settle", 0, 0, 2*time.Minute)
	h.Spec.RunTimeout = pick(t, "run timeout", time.Hour, 24*time.Hour)
	h.Spec.Environments = nil
	for i := range rapid.IntRange(1, 4).Draw(t, "environments") {
		h.Spec.Environments = append(h.Spec.Environments, h.environment(i))
	}
	return h
}

func pick[V any](t *rapid.T, name string, of ...V) V { return rapid.SampledFrom(of).Draw(t, name) }

// environment returns a random environment for a place in the list.
func (h *history) environment(i int) promotion.Environment {
	t, name := h.t, fmt.Sprintf("e%d", i)
	n := pick(t, "targets", 1, 1, 1, 2, 3)
	if i > 0 {
		n = pick(t, "targets", 0, 1, 1, 1, 1, 1, 1, 2, 3)
	}
	e := promotion.Environment{Name: promotion.EnvName(name), Need: n}
	for k := range n {
		e.Targets = append(e.Targets, promotion.TargetID{Namespace: fmt.Sprintf("%s-%d", name, k)})
	}
	if n == 3 {
		e.Need = pick(t, "need", 2, 3)
	}
	e.Soak = pick(t, "soak", 0, 0, 0, 5*time.Minute)
	for k := range pick(t, "gates", 0, 0, 0, 1, 2) {
		e.Gates = append(e.Gates, promotion.Gate{Name: fmt.Sprintf("g%d", k),
			When: pick(t, "when", promotion.Before, promotion.After)})
	}
	e.Strategy = pick(t, "strategy", promotion.PullRequest, promotion.PullRequest, promotion.PullRequest,
		promotion.Notification, promotion.ByHand)
	if i == 0 {
		return e
	}
	e.DependsOn = []promotion.EnvName{h.Spec.Environments[i-1].Name}
	if i > 1 && rapid.Bool().Draw(t, "two predecessors") {
		e.DependsOn = append(e.DependsOn, h.Spec.Environments[i-2].Name)
		e.Any = rapid.Bool().Draw(t, "any")
	}
	if pick(t, "approval", false, false, true) {
		e.Approval = &admission.Approval{Count: pick(t, "count", 1, 2),
			By: pick(t, "by", nil, []string{"ana", "group:ops"})}
	}
	if pick(t, "windows", false, false, true) {
		e.Windows = window(pick(t, "window", "0 9 * * *", "0 14 * * *", "0 */2 * * *"))
		e.Windows[0].Length = pick(t, "length", 30*time.Minute, 90*time.Minute, 3*time.Hour)
	}
	if rapid.Bool().Draw(t, "auto merge") {
		e.AutoMerge = &promotion.AutoMerge{IgnoreChecks: rapid.Bool().Draw(t, "ignore checks")}
	}
	if pick(t, "hold", false, false, false, true) {
		e.Hold = &promotion.SpecHold{Until: pick(t, "until", time.Time{}, noon.Add(time.Hour)),
			Revision: pick(t, "held", promotion.Revision(""), "b")}
	}
	if rapid.Bool().Draw(t, "rollback") {
		e.Rollback = &promotion.Rollback{After: pick(t, "after", 0, 5*time.Minute),
			Manual: rapid.Bool().Draw(t, "manual")}
	}
	return e
}

// event is one thing that happens.
type event struct {
	weight int
	name   string
	happen func(h *history)
}

func events() []event {
	return []event{
		{6, "time passes", (*history).pass}, {4, "a new revision", (*history).release},
		{6, "a target changes", (*history).flap},
		{10, "targets follow", (*history).follow}, {10, "an attempt ends", (*history).endOne},
		{6, "a proposal changes", (*history).changeProposal},
		{5, "a gate answers", (*history).answer}, {4, "a person requests", (*history).request},
		{3, "an approval", (*history).approve},
		{1, "a freeze", (*history).freeze}, {1, "the spec changes", (*history).edit},
	}
}

// happen lets one random thing happen, and returns its name.
func (h *history) happen() string {
	var list []event
	for _, e := range events() {
		for range e.weight {
			list = append(list, e)
		}
	}
	e := list[rapid.IntRange(0, len(list)-1).Draw(h.t, "event")]
	e.happen(h)
	return e.name
}

func (h *history) pass() {
	h.after(pick(h.t, "time", time.Second, time.Minute, 2*time.Minute, 5*time.Minute, 31*time.Minute, 2*time.Hour,
		25*time.Hour))
}

// release brings a revision to the first environment: a new one, or one of before.
func (h *history) release() {
	r := string(h.next)
	if rapid.IntRange(0, 4).Draw(h.t, "old") == 0 {
		r = pick(h.t, "revision", "a", "b", "c", "d")
	} else {
		h.next++
	}
	h.bring(0, r, 0)
}

// bring sets the targets of an environment, from one on, ready at a revision.
func (h *history) bring(i int, r string, from int) {
	for _, id := range h.Spec.Environments[i].Targets[min(from, len(h.Spec.Environments[i].Targets)):] {
		h.sees(id.Namespace + "=" + r)
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
	other := pick(h.t, "other", "a", "b", string(h.next-1))
	h.sees(id.Namespace + "=" + pick(h.t, "state", "?", "!"+now, "~"+now, now, other, now+">"+other, now+"!"+other, ""))
}

// follow lets an environment follow its run, as its controllers do after a promotion.
func (h *history) follow() {
	i := h.anyEnv()
	r := h.wantedRun(i)
	if r.Number == 0 {
		return
	}
	isPromoted := slices.ContainsFunc(r.Facts, func(f promotion.Fact) bool {
		return f.Env == h.Spec.Environments[i].Name && f.Event == promotion.EnvPromoted
	})
	if isPromoted {
		h.bring(i, pick(h.t, "outcome", "", "", "", "!")+string(r.Revision), rapid.IntRange(0, 1).Draw(h.t, "from"))
	}
}

// wantedRun returns the run that an environment wants.
func (h *history) wantedRun(i int) promotion.Run {
	v := promotion.Decide(cloned(h.Input)).Verdicts[i]
	at := slices.IndexFunc(h.Runs, func(r promotion.Run) bool { return r.Number == v.Run })
	if at < 0 {
		return promotion.Run{}
	}
	return h.Runs[at]
}

// endOne ends a live attempt at random.
func (h *history) endOne() {
	keys := h.live()
	if len(keys) == 0 {
		return
	}
	key := pick(h.t, "attempt", keys...)
	h.endAttempt(key, pick(h.t, "end", "done", "done", "done", "done", "failed", "asked", "declined", "moved",
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
	h.Attempts[key] = a
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
		p.State, p.At = promotion.Merged, h.Now
		h.Proposals[key.Env] = p
	case promotion.OpClose:
		p.State, p.At, p.ClosedByUs = promotion.Closed, h.Now, true
		h.Proposals[key.Env] = p
	}
}

// changeProposal changes an open proposal at random.
func (h *history) changeProposal() {
	name := h.Spec.Environments[h.anyEnv()].Name
	if p := h.Proposals[name]; p.State != promotion.Open {
		return
	}
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

// answer gives the result of a gate.
func (h *history) answer() {
	i := h.anyEnv()
	e, r := h.Spec.Environments[i], h.wantedRun(i)
	if len(e.Gates) == 0 || r.Number == 0 {
		return
	}
	h.Gates = maps.Clone(h.Gates)
	passed := rapid.IntRange(0, 3).Draw(h.t, "passed") > 0
	h.Gates[promotion.GateKey{Run: r.Number, Env: e.Name, Gate: pick(h.t, "gate", e.Gates...).Name}] =
		promotion.GateResult{Passed: passed, Failed: !passed, At: h.Now}
}

// request adds a request of a person.
func (h *history) request() {
	i := h.anyEnv()
	e, r := h.Spec.Environments[i], h.wantedRun(i)
	kind := pick(h.t, "kind", promotion.Reject, promotion.HoldBack, promotion.Unhold, promotion.Unhold,
		promotion.Retry, promotion.Retry,
		promotion.RollBack, promotion.Override, promotion.RejectAll, promotion.AcceptAll)
	name := e.Name
	if kind == promotion.RejectAll || kind == promotion.AcceptAll ||
		(kind == promotion.HoldBack || kind == promotion.Unhold) && rapid.Bool().Draw(h.t, "all") {
		name = ""
	}
	h.intend(kind, name, func(in *promotion.Intent) {
		switch kind {
		case promotion.Reject, promotion.RejectAll, promotion.AcceptAll:
			in.Revision, in.Run = r.Revision, r.Number
		case promotion.RollBack:
			in.Revision = pick(h.t, "to", "", promotion.Revision("a"))
		case promotion.HoldBack:
			in.Until = pick(h.t, "until", time.Time{}, h.Now.Add(10*time.Minute))
		}
	})
}

// approve adds an approval, perhaps one that does not count, or twice.
func (h *history) approve() {
	i := h.anyEnv()
	r := h.wantedRun(i)
	run := r.Number - pick(h.t, "run", int64(0), 0, 0, 1)
	by := pick(h.t, "by", admission.Person{Name: "ana"}, admission.Person{Name: "dan", Groups: []string{"ops"}},
		admission.Person{Name: "eve"})
	for range pick(h.t, "times", 1, 1, 2) {
		h.intend(promotion.Approve, h.Spec.Environments[i].Name, func(in *promotion.Intent) {
			in.Run, in.Revision, in.By = run, r.Revision, by
		})
	}
}

// freeze freezes, thaws, suspends or resumes.
func (h *history) freeze() {
	switch pick(h.t, "freeze", "freeze", "until", "thaw", "thaw", "suspend", "resume") {
	case "freeze":
		h.Frozen = &admission.Freeze{}
	case "until":
		h.Frozen = &admission.Freeze{Until: h.Now.Add(10 * time.Minute)}
	case "thaw":
		h.Frozen = nil
	case "suspend":
		h.Spec.Suspend = true
	case "resume":
		h.Spec.Suspend = false
	}
}

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
