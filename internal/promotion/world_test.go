package promotion_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/promotion"
)

// world is an Input that tests change step by step. Plans are recorded in it as in the log.
type world struct {
	promotion.Input
	seq int64
}

// newWorld returns a world of dev, staging and prod with one target each, at noon, in which nothing was seen yet.
func newWorld(changes ...func(*promotion.Spec)) *world {
	target := func(name string) []promotion.TargetID { return []promotion.TargetID{{Namespace: name}} }
	w := &world{Input: promotion.Input{Now: noon,
		Spec: promotion.Spec{OnNewRevision: promotion.Interrupt, OnDrift: promotion.Hold, OnBackward: promotion.Hold,
			RunTimeout: 24 * time.Hour, RolloutTimeout: 30 * time.Minute, Environments: []promotion.Environment{
				{Name: "dev", Targets: target("dev"), Need: 1},
				{Name: "staging", Targets: target("staging"), Need: 1, DependsOn: []promotion.EnvName{"dev"},
					Strategy: promotion.PullRequest},
				{Name: "prod", Targets: target("prod"), Need: 1, DependsOn: []promotion.EnvName{"staging"},
					Strategy: promotion.PullRequest},
			}},
		Seen: map[promotion.TargetID]promotion.Seen{}, Attempts: map[promotion.AttemptKey]promotion.Attempt{},
		Proposals: map[promotion.EnvName]promotion.Proposal{}, Gates: map[promotion.GateKey]promotion.GateResult{},
		Inputs: map[promotion.EnvName]string{}}}
	for _, change := range changes {
		change(&w.Spec)
	}
	return w
}

// env returns an environment of a spec to change it.
func env(s *promotion.Spec, name promotion.EnvName) *promotion.Environment {
	i := slices.IndexFunc(s.Environments, func(e promotion.Environment) bool { return e.Name == name })
	return &s.Environments[i]
}

// targets gives an environment some targets, of which need have to be ready.
func targets(name promotion.EnvName, need int, namespaces ...string) func(*promotion.Spec) {
	return func(s *promotion.Spec) {
		e := env(s, name)
		e.Need, e.Targets = need, nil
		for _, n := range namespaces {
			e.Targets = append(e.Targets, promotion.TargetID{Namespace: n})
		}
	}
}

// seen parses the state of a target: "a" is ready at a, "!a" failed at a, "a>b" has a and rolls out b, "a!b" has a and
// failed at b, "~a" is a re-check of a that was ready before, "?" is unknown, "" has nothing.
func seen(text string, now time.Time) promotion.Seen {
	at := func(c promotion.Class, applied, attempted string) promotion.Seen {
		return promotion.Seen{Class: c, Applied: promotion.Revision(applied), Attempted: promotion.Revision(attempted)}
	}
	if text == "?" {
		return promotion.UnknownTarget(promotion.ClusterUnreachable, "")
	}
	if r, ok := strings.CutPrefix(text, "~"); ok {
		s := at(promotion.Progressing, r, r)
		s.Rechecking, s.Last, s.RecheckSince = true, promotion.Ready, now
		return s
	}
	if a, b, ok := strings.Cut(text, ">"); ok {
		return at(promotion.Progressing, a, b)
	}
	if a, b, ok := strings.Cut(text, "!"); ok {
		if a == "" {
			a = b
		}
		return at(promotion.Failed, a, b)
	}
	return at(promotion.Ready, text, text)
}

// sees sets the states of targets: "dev=a staging=a>b".
func (w *world) sees(text string) *world {
	for _, field := range strings.Fields(text) {
		name, state, _ := strings.Cut(field, "=")
		id := promotion.TargetID{Namespace: name}
		if cluster, namespace, ok := strings.Cut(name, "/"); ok {
			id = promotion.TargetID{Cluster: cluster, Namespace: namespace}
		}
		w.Seen = maps.Clone(w.Seen)
		w.Seen[id] = seen(state, w.Now)
	}
	return w
}

// after lets time pass.
func (w *world) after(d time.Duration) *world {
	w.Now = w.Now.Add(d)
	return w
}

// decide decides, and records the plan.
func (w *world) decide() promotion.Plan {
	plan := promotion.Decide(w.Input)
	w.record(plan)
	return plan
}

// record records a plan as the log does. Its steps become live attempts.
func (w *world) record(plan promotion.Plan) {
	w.Input = recorded(w.Input, plan)
}

// recorded returns an input after a plan was recorded. The input stays as it is.
func recorded(in promotion.Input, plan promotion.Plan) promotion.Input {
	in.Latest, in.LatestSince = plan.Latest, plan.LatestSince
	if plan.Sighting != nil {
		in.Sightings = append(slices.Clone(in.Sightings), *plan.Sighting)
	}
	in.Runs = slices.Clone(in.Runs)
	at := func(number int64) *promotion.Run {
		i := slices.IndexFunc(in.Runs, func(r promotion.Run) bool { return r.Number == number })
		if i < 0 {
			return &promotion.Run{}
		}
		return &in.Runs[i]
	}
	for _, change := range plan.Runs {
		if change.End == promotion.Running {
			in.Runs = append(in.Runs, change.Run)
		} else {
			r := at(change.Run.Number)
			r.End, r.EndedAt = change.End, in.Now
		}
	}
	for _, change := range plan.Runs {
		for _, f := range change.Facts {
			appendFact(at(f.Run), f)
		}
	}
	in.Attempts = maps.Clone(in.Attempts)
	for _, v := range slices.Concat(plan.Verdicts, plan.Also) {
		for _, f := range v.Facts {
			appendFact(at(f.Run), f)
		}
		if v.Run != 0 {
			r := at(v.Run)
			if r.Phases = maps.Clone(r.Phases); r.Phases == nil {
				r.Phases = map[promotion.EnvName]promotion.PhaseSince{}
			}
			r.Phases[v.Env] = promotion.PhaseSince{Phase: v.Phase, Since: v.Since}
		}
		for _, s := range v.Do {
			a := promotion.Attempt{Status: promotion.AttemptLive, At: in.Now, Inputs: in.Inputs[v.Env], Base: s.Base,
				Head: s.Head}
			if s.Cancel {
				a = in.Attempts[s.Key()]
				a.Status, a.At = promotion.AttemptCanceled, in.Now
			}
			in.Attempts[s.Key()] = a
		}
	}
	return in
}

// appendFact appends a fact unless the log has it.
func appendFact(r *promotion.Run, f promotion.Fact) {
	isSame := func(g promotion.Fact) bool {
		return f.Env == g.Env && f.Event == g.Event && (f.Target == nil) == (g.Target == nil) &&
			(f.Target == nil || *f.Target == *g.Target)
	}
	if !slices.ContainsFunc(r.Facts, isSame) {
		r.Facts = append(slices.Clip(r.Facts), f)
	}
}

// settle decides until nothing more is to be recorded, and returns the last plan.
func (w *world) settle(t testing.TB) promotion.Plan {
	t.Helper()
	for range 10 {
		before := w.Input
		plan := w.decide()
		if len(plan.Runs) == 0 && plan.Sighting == nil && !writes(plan) && before.Latest == w.Latest {
			return plan
		}
	}
	t.Fatal("deciding does not settle")
	return promotion.Plan{}
}

// writes reports whether a plan has facts or steps.
func writes(plan promotion.Plan) bool {
	return slices.ContainsFunc(slices.Concat(plan.Verdicts, plan.Also),
		func(v promotion.Verdict) bool { return len(v.Facts)+len(v.Do) > 0 })
}

// verdict returns the verdict on an environment.
func verdict(t testing.TB, plan promotion.Plan, name promotion.EnvName) promotion.Verdict {
	t.Helper()
	for _, v := range plan.Verdicts {
		if v.Env == name {
			return v
		}
	}
	t.Fatalf("no verdict on %s", name)
	return promotion.Verdict{}
}

// codes returns the phase and the codes of the reasons, such as "Blocked: Held Frozen".
func codes(v promotion.Verdict) string {
	words := []string{string(v.Phase) + ":"}
	for _, r := range v.Why {
		words = append(words, string(r.Code))
	}
	return strings.TrimSuffix(strings.Join(words, " "), ":")
}

// steps returns the steps such as "propose", "cancel merge", "gate smoke again".
func steps(v promotion.Verdict) string {
	var list []string
	for _, s := range v.Do {
		text := string(s.Op)
		if s.Cancel {
			text = "cancel " + text
		}
		if s.Gate != "" {
			text += " " + s.Gate
		}
		if s.Redo {
			text += " on new base"
		}
		if s.Repeats {
			text += " again"
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}

// facts returns the events of the facts.
func facts(v promotion.Verdict) string {
	var list []string
	for _, f := range v.Facts {
		text := string(f.Event)
		if f.Target != nil {
			text += " " + f.Target.String()
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}

// intend adds a request of ana.
func (w *world) intend(kind promotion.IntentKind, name promotion.EnvName, changes ...func(*promotion.Intent)) *world {
	w.seq++
	in := promotion.Intent{Seq: w.seq, Kind: kind, Env: name, At: w.Now, Proof: promotion.ProofToken}
	in.By.Name = "ana"
	for _, change := range changes {
		change(&in)
	}
	w.Intents = append(w.Intents, in)
	return w
}

// end ends the live attempt of an operation in an environment.
func (w *world) end(name promotion.EnvName, op promotion.Op, status promotion.AttemptStatus,
	changes ...func(*promotion.Attempt)) *world {
	w.Attempts = maps.Clone(w.Attempts)
	for key, a := range w.Attempts {
		if key.Env == name && key.Op == op && a.Status == promotion.AttemptLive {
			a.Status, a.At = status, w.Now
			for _, change := range changes {
				change(&a)
			}
			w.Attempts[key] = a
		}
	}
	return w
}

// proposes ends the live attempt to propose with an open proposal.
func (w *world) proposes(name promotion.EnvName, changes ...func(*promotion.Proposal)) *world {
	w.end(name, promotion.OpPropose, promotion.AttemptDone)
	run := w.newestRun(name)
	p := promotion.Proposal{Number: 41, Revision: run.Revision, Run: run.Number, State: promotion.Open, At: w.Now,
		Base: "b1", Head: "h1"}
	for _, change := range changes {
		change(&p)
	}
	w.Proposals = maps.Clone(w.Proposals)
	w.Proposals[name] = p
	return w
}

// newestRun returns the newest run that concerns an environment.
func (w *world) newestRun(name promotion.EnvName) promotion.Run {
	for _, r := range slices.Backward(w.Runs) {
		if r.Env == "" || r.Env == name {
			return r
		}
	}
	return promotion.Run{}
}

// changes alters the proposal of an environment.
func (w *world) changes(name promotion.EnvName, change func(*promotion.Proposal)) *world {
	p := w.Proposals[name]
	change(&p)
	w.Proposals = maps.Clone(w.Proposals)
	w.Proposals[name] = p
	return w
}

// merges has a person merge the proposal of an environment.
func (w *world) merges(name promotion.EnvName) *world {
	return w.changes(name, func(p *promotion.Proposal) { p.State, p.At, p.By = promotion.Merged, w.Now, "bob" })
}

// gate records the result of a gate in the newest run of an environment.
func (w *world) gate(name promotion.EnvName, gate string, passed bool) *world {
	w.Gates = maps.Clone(w.Gates)
	key := promotion.GateKey{Run: w.newestRun(name).Number, Env: name, Gate: gate}
	w.Gates[key] = promotion.GateResult{Passed: passed, Failed: !passed, At: w.Now}
	return w
}
