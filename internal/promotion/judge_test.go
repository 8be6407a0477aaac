package promotion_test

import (
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/cron"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// prod returns the input of an environment with targets in some states, which run 7 wants at b. The predecessors have
// passed. Revision c is newer.
func prod(need int, states ...string) promotion.EnvInput {
	in := promotion.EnvInput{
		Env: promotion.Environment{Name: "prod", Need: need, Strategy: promotion.PullRequest,
			DependsOn: []promotion.EnvName{"staging"}},
		Now: noon, RolloutTimeout: 30 * time.Minute, Seen: map[promotion.TargetID]promotion.Seen{},
		Run: &promotion.Run{Number: 7, Revision: "b", Cause: promotion.ByCandidate,
			StartedAt: noon.Add(-time.Hour)},
		Attempts: map[promotion.AttemptKey]promotion.Attempt{}, Gates: map[promotion.GateKey]promotion.GateResult{},
		Passed: true, IsNewer: func(r promotion.Revision) bool { return r == "c" },
	}
	for i, state := range states {
		id := promotion.TargetID{Namespace: string(rune('p' + i))}
		in.Env.Targets = append(in.Env.Targets, id)
		in.Seen[id] = seen(state, noon)
	}
	return in
}

// change changes an input.
func change(in promotion.EnvInput, changes ...func(*promotion.EnvInput)) promotion.EnvInput {
	for _, c := range changes {
		c(&in)
	}
	return in
}

// was records a phase since some time ago.
func was(p promotion.Phase, ago time.Duration) func(*promotion.EnvInput) {
	return func(in *promotion.EnvInput) {
		in.Run.Phases = map[promotion.EnvName]promotion.PhaseSince{"prod": {Phase: p, Since: noon.Add(-ago)}}
	}
}

// has records an entry of some time ago.
func has(event promotion.Event, ago time.Duration) func(*promotion.EnvInput) {
	return func(in *promotion.EnvInput) {
		in.Run.Facts = append(in.Run.Facts, promotion.Fact{Run: 7, Env: "prod", Event: event, At: noon.Add(-ago)})
	}
}

// tried adds an attempt of run 7 of some time ago.
func tried(op promotion.Op, status promotion.AttemptStatus, ago time.Duration,
	changes ...func(*promotion.Attempt)) func(*promotion.EnvInput) {
	return func(in *promotion.EnvInput) {
		a := promotion.Attempt{Status: status, At: noon.Add(-ago)}
		for _, c := range changes {
			c(&a)
		}
		in.Attempts[promotion.AttemptKey{Run: 7, Env: "prod", Op: op}] = a
	}
}

func triedGate(gate string, status promotion.AttemptStatus) func(*promotion.EnvInput) {
	return func(in *promotion.EnvInput) {
		in.Attempts[promotion.AttemptKey{Run: 7, Env: "prod", Op: promotion.OpGate,
			Gate: gate}] = promotion.Attempt{Status: status}
	}
}

func answered(gate string, passed bool) func(*promotion.EnvInput) {
	return func(in *promotion.EnvInput) {
		in.Gates[promotion.GateKey{Run: 7, Env: "prod", Gate: gate}] = promotion.GateResult{Passed: passed,
			Failed: !passed, At: noon}
	}
}

// proposed adds proposal 41 for b, made by run 7.
func proposed(changes ...func(*promotion.Proposal)) func(*promotion.EnvInput) {
	return func(in *promotion.EnvInput) {
		p := promotion.Proposal{Number: 41, Revision: "b", Run: 7, State: promotion.Open,
			At: noon.Add(-10 * time.Minute), Base: "b1", Head: "h1"}
		for _, c := range changes {
			c(&p)
		}
		in.Proposal = &p
	}
}

func ended(state promotion.ProposalState) func(*promotion.Proposal) {
	return func(p *promotion.Proposal) { p.State, p.By = state, "bob" }
}

func ask(kind promotion.IntentKind, changes ...func(*promotion.Intent)) func(*promotion.EnvInput) {
	return func(in *promotion.EnvInput) {
		i := promotion.Intent{Seq: int64(len(in.Intents) + 1), Kind: kind, Env: "prod", Run: 7, Revision: "b",
			By: admission.Person{Name: "ana"}, Proof: promotion.ProofToken, At: noon.Add(-time.Minute)}
		for _, c := range changes {
			c(&i)
		}
		in.Intents = append(in.Intents, i)
	}
}

func everywhere(i *promotion.Intent) { i.Env = "" }

func anyRevision(i *promotion.Intent) { i.Revision = "" }

func ago(d time.Duration) func(*promotion.Intent) {
	return func(i *promotion.Intent) { i.At = noon.Add(-d) }
}

func autoMerge(in *promotion.EnvInput) { in.Env.AutoMerge = &promotion.AutoMerge{} }

func suspend(in *promotion.EnvInput) { in.Suspend = true }

func first(in *promotion.EnvInput) {
	in.First = []promotion.Reason{{Code: promotion.WhyEnvironmentNotReady}}
}

func soak(d time.Duration) func(*promotion.EnvInput) {
	return func(in *promotion.EnvInput) { in.Env.Soak = d }
}

func gates(when promotion.GateWhen, names ...string) func(*promotion.EnvInput) {
	return func(in *promotion.EnvInput) {
		for _, name := range names {
			in.Env.Gates = append(in.Env.Gates, promotion.Gate{Name: name, When: when})
		}
	}
}

func cause(c promotion.RunCause) func(*promotion.EnvInput) {
	return func(in *promotion.EnvInput) {
		in.Cause, in.Run.Cause, in.Run.Env, in.Passed = c, c, "prod", false
		in.Before = []promotion.Reason{{Code: promotion.WhyPredecessorWaiting}}
	}
}

// frozenUntil freezes the pipeline.
func frozenUntil(until time.Time) func(*promotion.EnvInput) {
	return func(in *promotion.EnvInput) { in.Frozen = &admission.Freeze{By: "ana", Until: until} }
}

// open and closed are windows around noon.
func open(in *promotion.EnvInput)   { in.Env.Windows = window("0 9 * * *") }
func closed(in *promotion.EnvInput) { in.Env.Windows = window("0 14 * * *") }

func window(schedule string) admission.Windows {
	start, err := cron.Parse(schedule)
	if err != nil {
		panic(err)
	}
	return admission.Windows{{Kind: cron.Allow, Start: start, Zone: time.UTC, Length: 8 * time.Hour}}
}

// judged is a row of a table: the verdict on an input.
type judged struct {
	name  string // the first cell of the row of the design, and the case
	in    promotion.EnvInput
	want  string // phase and reasons
	do    string // steps
	facts string
}

func judgeAll(t *testing.T, rows []judged) {
	t.Helper()
	for _, c := range rows {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v := promotion.Judge(c.in)
			if got := codes(v); got != c.want {
				t.Errorf("got %q, want %q (%+v)", got, c.want, v.Why)
			}
			if got := steps(v); got != c.do {
				t.Errorf("does %q, want %q", got, c.do)
			}
			if got := facts(v); got != c.facts {
				t.Errorf("facts %q, want %q", got, c.facts)
			}
		})
	}
}

// twoGates lists the reasons of two gates that wait.
const twoGates = " WaitingGate" + " WaitingGate"

// TestCountsDetermineThePhase plays the first table of judging.
func TestCountsDetermineThePhase(t *testing.T) {
	t.Parallel()
	none := func(in *promotion.EnvInput) { in.Run = nil }
	judgeAll(t, []judged{
		{"no Want", change(prod(1, "a"), none), "Waiting: EnvironmentNotReady", "", ""},
		{"n = 0", prod(0), "Blocked: NoTargets", "", ""},
		{"U > n − need", prod(2, "b", "?"), "Unknown: TargetUnknown", "", ""},
		{"U > n − need/a missing key is unknown", change(prod(1, "b"),
			func(in *promotion.EnvInput) { in.Seen = nil }), "Unknown: TargetUnknown", "", ""},
		{"U > n − need/proposals are left", change(prod(1, "?"), proposed(ended(promotion.Merged))),
			"Unknown: TargetUnknown", "", ""},
		{"U ≤ n − need/continues", prod(2, "a", "a", "?"), "Promoting", "propose", "stage-started"},
		{"H ≥ need/complete", prod(1, "b"), "Complete", "",
			"stage-started, target-healthy p, stage-finished-successfully"},
		{"H ≥ need/finish and healthy targets are recorded once",
			change(prod(1, "b"), has(promotion.StageStarted, 0), has(promotion.StageFinished, 0)),
			"Complete", "", "target-healthy p"},
		{"H ≥ need/with one unknown", prod(2, "b", "b", "?"), "Complete", "",
			"stage-started, target-healthy p, target-healthy q, stage-finished-successfully"},
		{"H ≥ need/F > 0 adds Degraded", change(prod(2, "b", "b", "!b"), has(promotion.StageStarted, 0)),
			"Complete: Degraded", "",
			"target-healthy p, target-healthy q, stage-finished-successfully"},
		{"H ≥ need/soaking begins", change(prod(1, "b"), soak(time.Hour), has(promotion.StageStarted, 0)),
			"Soaking: Soaking", "", "target-healthy p"},
		{"H ≥ need/soaking has begun", change(prod(1, "b"), soak(time.Hour),
			was(promotion.PhaseSoaking, time.Hour-1)), "Soaking: Soaking", "",
			"stage-started, target-healthy p"},
		{"H ≥ need/soaked", change(prod(1, "b"), soak(time.Hour), was(promotion.PhaseSoaking, time.Hour)), "Complete",
			"",
			"stage-started, target-healthy p, stage-finished-successfully"},
		{"H ≥ need/another phase restarts soaking",
			change(prod(1, "b"), soak(time.Hour), was(promotion.PhaseUnknown, 2*time.Hour)), "Soaking: Soaking", "",
			"stage-started, target-healthy p"},
		{"H ≥ need/override skips soaking", change(prod(1, "b"), soak(time.Hour), ask(promotion.Override)),
			"Complete", "",
			"stage-started, target-healthy p, stage-finished-successfully"},
		{"H ≥ need/gates After all at once", change(prod(1, "b"), gates(promotion.After, "one", "two")),
			"Verifying:" + twoGates,
			"gate one, gate two", "stage-started, target-healthy p"},
		{"H ≥ need/gates that run", change(prod(1, "b"), gates(promotion.After, "one"),
			triedGate("one", promotion.AttemptLive)),
			"Verifying: WaitingGate", "", "stage-started, target-healthy p"},
		{"H ≥ need/a gate that was canceled runs again",
			change(prod(1, "b"), gates(promotion.After, "one"), triedGate("one", promotion.AttemptCanceled)),
			"Verifying: WaitingGate", "gate one again", "stage-started, target-healthy p"},
		{"H ≥ need/gates passed", change(prod(1, "b"), gates(promotion.After, "one"), answered("one", true)),
			"Complete", "",
			"stage-started, target-healthy p, gate-passed/one, stage-finished-successfully"},
		{"H ≥ need/a recorded pass holds", change(prod(1, "b"), gates(promotion.After, "one"),
			has(promotion.GateEvent("one"), 0), answered("one", false)),
			"Complete", "", "stage-started, target-healthy p, stage-finished-successfully"},
		{"H ≥ need/one gate fails", change(prod(1, "b"), gates(promotion.After, "one", "two"),
			answered("two", false)), "Failed: WaitingGate GateFailed", "",
			"stage-started, target-healthy p"},
		{"H ≥ need/gates continue while suspended", change(prod(1, "b"), suspend, gates(promotion.After, "one")),
			"Verifying: WaitingGate", "gate one",
			"stage-started, target-healthy p"},
		{"H ≥ need/only kept targets", change(prod(1, "~b")), "Verifying: Rechecking", "", "stage-started"},
		{"H ≥ need/kept targets after the finish",
			change(prod(1, "~b"), has(promotion.StageStarted, 0), has(promotion.StageFinished, 0)), "Complete", "",
			""},
		{"H ≥ need/enough without the kept ones", prod(2, "b", "b", "~b"), "Complete", "",
			"stage-started, target-healthy p, target-healthy q, stage-finished-successfully"},
		{"H ≥ need/predecessors have not passed", change(prod(1, "b"), func(in *promotion.EnvInput) {
			in.Passed, in.Before = false, []promotion.Reason{{Code: promotion.WhyPredecessorSoaking}}
		}), "Complete: PredecessorSoaking", "", "target-healthy p"},
		{"F > 0", prod(2, "a", "!b"), "Failed: TargetFailed", "", "stage-started"},
		{"F > 0/at the attempted one", prod(2, "b", "a!b"), "Failed: TargetFailed", "",
			"stage-started, target-healthy p"},
		{"H + W > 0", prod(2, "b", "a"), "RollingOut: RollingOut", "", "stage-started, target-healthy p"},
		{"H + W > 0/progressing", prod(1, "a>b"), "RollingOut: RollingOut", "", "stage-started"},
		{"H + W > 0/leaving it", prod(1, "b>c"), "RollingOut: RollingOut", "", "stage-started"},
		{"H + W > 0/before the timeout", change(prod(1, "a>b"), was(promotion.PhaseRollingOut, 30*time.Minute-1)),
			"RollingOut: RollingOut", "", "stage-started"},
		{"H + W > 0/timed out", change(prod(1, "a>b"), was(promotion.PhaseRollingOut, 30*time.Minute)),
			"RollingOut: RolloutTimedOut", "", "stage-started"},
		{"an O on a newer sighted revision", prod(1, "c"), "Blocked: Ahead", "", "stage-started"},
		{"an O on a newer sighted revision/attempted", prod(1, "a>c"), "Blocked: Ahead", "", "stage-started"},
		{"an O on a newer sighted revision/one of two", prod(2, "a", "c"), "Blocked: Ahead", "", "stage-started"},
		{"an O on a newer sighted revision/in a rollback", change(prod(1, "c"), cause(promotion.ByRollback)),
			"Promoting", "propose", "stage-started"},
		{"else/promoted, not finished", change(prod(1, "a"), has(promotion.EnvPromoted, time.Minute)),
			"RollingOut: RollingOut", "", "stage-started"},
		{"else/a proposal for R is open", change(prod(1, "a"), proposed()), "Proposed: WaitingMerge", "",
			"stage-started"},
		{"else/nothing blocks", prod(1, "a"), "Promoting", "propose", "stage-started"},
		{"else/only a live attempt", change(prod(1, "a"), tried(promotion.OpPropose, promotion.AttemptLive, 0)),
			"Promoting: AttemptLive", "", "stage-started"},
		{"else/nothing applied", prod(1, ""), "Promoting", "propose", "stage-started"},
		{"else/failed at another revision", prod(1, "!a"), "Promoting", "propose", "stage-started"},
		{"first environment/nothing is promoted into it", change(prod(1, "a"), first), "Blocked: EnvironmentNotReady",
			"", "stage-started"},
		{"first environment/newer", change(prod(1, "c"), first), "Blocked: EnvironmentNotReady", "", "stage-started"},
		{"first environment/drifted", change(prod(1, "a"), first, has(promotion.StageFinished, time.Hour)),
			"Blocked: EnvironmentNotReady", "", "stage-started"},
		{"first environment/complete", change(prod(1, "b"), first), "Complete", "",
			"stage-started, target-healthy p, stage-finished-successfully"},
	})
}

// TestReasonsBlockAStep: each of the thirteen, and all that apply.
func TestReasonsBlockAStep(t *testing.T) {
	t.Parallel()
	before := func(code promotion.ReasonCode) func(*promotion.EnvInput) {
		return func(in *promotion.EnvInput) { in.Passed, in.Before = false, []promotion.Reason{{Code: code}} }
	}
	reason := func(code promotion.ReasonCode) *promotion.Reason { return &promotion.Reason{Code: code} }
	hold := func(h promotion.SpecHold) func(*promotion.EnvInput) {
		return func(in *promotion.EnvInput) { in.Env.Hold = &h }
	}
	approval := func(count int, by ...string) func(*promotion.EnvInput) {
		return func(in *promotion.EnvInput) { in.Env.Approval = &admission.Approval{Count: count, By: by} }
	}
	inputs := func(in *promotion.EnvInput) { in.Inputs = "new" }
	class := func(c promotion.ErrorClass) func(*promotion.Attempt) {
		return func(a *promotion.Attempt) { a.Class, a.Error = c, "no" }
	}
	deny := func(in *promotion.EnvInput) {
		in.Env.Windows = window("0 9 * * *")
		in.Env.Windows[0].Kind = cron.Deny
	}
	const started = "stage-started"
	judgeAll(t, []judged{
		{"(1) Suspended", change(prod(1, "a"), suspend), "Blocked: Suspended", "", started},
		{"(2) predecessors", change(prod(1, "a"), before(promotion.WhyPredecessorUnknown)),
			"Blocked: PredecessorUnknown", "", ""},
		{"(3) IntroducedAfter", change(prod(1, "a"),
			func(in *promotion.EnvInput) { in.Introduced = reason(promotion.WhyIntroducedAfter) }),
			"Blocked: IntroducedAfter", "", started},
		{"(4) no strategy", change(prod(1, "a"), func(in *promotion.EnvInput) { in.Env.Strategy = promotion.ByHand }),
			"Blocked: PromotedByHand", "", started},
		{"(5) a hold of the spec", change(prod(1, "a"), hold(promotion.SpecHold{})), "Blocked: Held", "", started},
		{"(5) a hold of the spec/of this revision", change(prod(1, "a"), hold(promotion.SpecHold{Revision: "b"})),
			"Blocked: Held", "", started},
		{"(5) a hold of the spec/of another revision", change(prod(1, "a"), hold(promotion.SpecHold{Revision: "c"})),
			"Promoting", "propose", started},
		{"(5) a hold of the spec/before its end", change(prod(1, "a"), hold(promotion.SpecHold{Until: noon.Add(1)})),
			"Blocked: Held", "", started},
		{"(5) a hold of the spec/at its end", change(prod(1, "a"), hold(promotion.SpecHold{Until: noon})),
			"Promoting", "propose", started},
		{"(5) a person's hold", change(prod(1, "a"), ask(promotion.HoldBack, anyRevision)), "Blocked: Held", "",
			started},
		{"(5) a person's hold/of the pipeline", change(prod(1, "a"),
			ask(promotion.HoldBack, anyRevision, everywhere)), "Blocked: Held", "", started},
		{"(5) a person's hold/of another environment",
			change(prod(1, "a"), ask(promotion.HoldBack, anyRevision, func(i *promotion.Intent) { i.Env = "dev" })),
			"Promoting", "propose", started},
		{"(5) a person's hold/released", change(prod(1, "a"), ask(promotion.HoldBack, anyRevision),
			ask(promotion.Unhold)), "Promoting", "propose", started},
		{"(5) a person's hold/another scope released",
			change(prod(1, "a"), ask(promotion.HoldBack, anyRevision), ask(promotion.Unhold, everywhere)),
			"Blocked: Held", "", started},
		{"(5) a person's hold/at its end", change(prod(1, "a"),
			ask(promotion.HoldBack, anyRevision, func(i *promotion.Intent) { i.Until = noon })),
			"Promoting", "propose", started},
		{"(5) a person's hold/a person's rollback",
			change(prod(1, "a"), ask(promotion.HoldBack, anyRevision), cause(promotion.ByRollback)),
			"Promoting", "propose", started},
		{"(5) a person's hold/an automatic rollback",
			change(prod(1, "a"), ask(promotion.HoldBack, anyRevision), cause(promotion.ByFailure)),
			"Blocked: Held", "", started},
		{"(5) a freeze", change(prod(1, "a"), frozenUntil(time.Time{})), "Blocked: Frozen", "", started},
		{"(5) a freeze/for rollbacks too", change(prod(1, "a"), frozenUntil(noon.Add(1)),
			cause(promotion.ByRollback)), "Blocked: Frozen", "", started},
		{"(5) a freeze/at its end", change(prod(1, "a"), frozenUntil(noon)), "Promoting", "propose", started},
		{"(6) rejected", change(prod(1, "a"), ask(promotion.Reject)), "Blocked: Declined", "", started},
		{"(6) rejected/in another environment", change(prod(1, "a"),
			ask(promotion.Reject, func(i *promotion.Intent) { i.Env = "staging" })), "Promoting", "propose", started},
		{"(6) rejected/another revision", change(prod(1, "a"),
			ask(promotion.Reject, func(i *promotion.Intent) { i.Revision = "a" })), "Promoting", "propose", started},
		{"(6) rejected/in another run", change(prod(1, "a"),
			ask(promotion.Reject, func(i *promotion.Intent) { i.Run = 3 })), "Blocked: Declined", "", started},
		{"(6) rejected/a retry ends it", change(prod(1, "a"), ask(promotion.Reject), ask(promotion.Retry, ago(0))),
			"Promoting", "propose", started},
		{"(6) rejected/before a retry's run", change(prod(1, "a"), ask(promotion.Reject, ago(2*time.Hour)),
			func(in *promotion.EnvInput) {
				in.Run.Env, in.Run.Cause, in.Cause = "prod", promotion.ByRetry, promotion.ByRetry
			}), "Promoting", "propose", started},
		{"(6) rejected/the revision became the newest again",
			change(prod(1, "a"), ask(promotion.Reject), func(in *promotion.EnvInput) {
				in.IsRenewed = func(time.Time) bool { return true }
			}), "Promoting", "propose", started},
		{"(6) rejected everywhere", change(prod(1, "a"), ask(promotion.RejectAll, everywhere)), "Blocked: Declined",
			"", started},
		{"(6) rejected everywhere/accepted", change(prod(1, "a"), ask(promotion.RejectAll, everywhere),
			ask(promotion.AcceptAll, everywhere)), "Promoting", "propose", started},
		{"(6) rejected everywhere/accept does not end a rejection",
			change(prod(1, "a"), ask(promotion.Reject), ask(promotion.AcceptAll, everywhere)),
			"Blocked: Declined", "", started},
		{"(6) closed unmerged", change(prod(1, "a"), proposed(ended(promotion.Closed))), "Blocked: Declined", "",
			started},
		{"(6) closed unmerged/in another run", change(prod(1, "a"),
			proposed(ended(promotion.Closed), func(p *promotion.Proposal) { p.Run = 3 })), "Blocked: Declined", "",
			started},
		{"(6) closed unmerged/by Waybill", change(prod(1, "a"),
			proposed(ended(promotion.Closed), func(p *promotion.Proposal) { p.ClosedByUs = true })), "Promoting",
			"propose", started},
		{"(6) closed unmerged/for another revision",
			change(prod(1, "a"), proposed(ended(promotion.Closed), func(p *promotion.Proposal) { p.Revision = "a" })),
			"Promoting", "propose", started},
		{"(6) an attempt that ended Declined", change(prod(1, "a"),
			tried(promotion.OpPropose, promotion.AttemptFailed, time.Minute, class(promotion.ErrDeclined))),
			"Blocked: Declined", "", started},
		{"(7) finished in this run", change(prod(1, "a"), has(promotion.StageFinished, time.Hour),
			has(promotion.EnvPromoted, time.Hour)), "Blocked: DriftedBack", "", started},
		{"(7) promoted/before the timeout", change(prod(1, "a"), has(promotion.EnvPromoted, 30*time.Minute-1)),
			"RollingOut: RollingOut", "", started},
		{"(7) promoted/timed out", change(prod(1, "a"), has(promotion.EnvPromoted, 30*time.Minute)),
			"RollingOut: RolloutTimedOut", "", started},
		{"(8) Busy", change(prod(1, "a"), func(in *promotion.EnvInput) { in.Busy = reason(promotion.WhyBusy) }),
			"Blocked: Busy", "", started},
		{"(9) gates Before run once (1) to (8) are clear",
			change(prod(1, "a"), gates(promotion.Before, "one", "two")), "Blocked:" + twoGates,
			"gate one, gate two", started},
		{"(9) gates Before/not before", change(prod(1, "a"), gates(promotion.Before, "one"), suspend),
			"Blocked: Suspended", "", started},
		{"(9) gates Before/beside later reasons", change(prod(1, "a"), gates(promotion.Before, "one"), closed),
			"Blocked: WaitingGate WindowClosed", "gate one", started},
		{"(9) gates Before/one has failed", change(prod(1, "a"), gates(promotion.Before, "one", "two"),
			answered("one", false)),
			"Blocked: GateFailed WaitingGate", "", started},
		{"(9) gates Before/passed", change(prod(1, "a"), gates(promotion.Before, "one"), answered("one", true)),
			"Promoting", "propose", started + ", gate-passed/one"},
		{"(9) gates Before/not in a rollback", change(prod(1, "a"), gates(promotion.Before, "one"),
			cause(promotion.ByFailure)), "Promoting", "propose", started},
		{"(10) WaitingApproval", change(prod(1, "a"), approval(1)), "Blocked: WaitingApproval", "", started},
		{"(10) WaitingApproval/of two, one", change(prod(1, "a"), approval(2), ask(promotion.Approve)),
			"Blocked: WaitingApproval", "", started},
		{"(10) WaitingApproval/enough", change(prod(1, "a"), approval(1), ask(promotion.Approve)), "Promoting",
			"propose", started + ", approval-granted"},
		{"(10) WaitingApproval/granted before", change(prod(1, "a"), approval(1),
			has(promotion.ApprovalGranted, time.Minute)), "Promoting", "propose", started},
		{"(10) WaitingApproval/predecessors have not passed",
			change(prod(1, "a"), approval(1), before(promotion.WhyPredecessorSoaking)),
			"Blocked: PredecessorSoaking", "", ""},
		{"(10) WaitingApproval/a person's rollback", change(prod(1, "a"), approval(1), cause(promotion.ByRollback)),
			"Promoting", "propose", started},
		{"(10) WaitingApproval/an automatic rollback", change(prod(1, "a"), approval(1), cause(promotion.ByFailure)),
			"Promoting", "propose", started},
		{"(10) WaitingApproval/an automatic rollback that is manual",
			change(prod(1, "a"), approval(1), cause(promotion.ByFailure),
				func(in *promotion.EnvInput) { in.Env.Rollback = &promotion.Rollback{Manual: true} }),
			"Blocked: WaitingApproval", "", started},
		{"(11) WindowClosed", change(prod(1, "a"), closed), "Blocked: WindowClosed", "", started},
		{"(11) WindowClosed/a Deny", change(prod(1, "a"), deny), "Blocked: WindowClosed", "", started},
		{"(11) WindowClosed/open", change(prod(1, "a"), open), "Promoting", "propose", started},
		{"(11) WindowClosed/override", change(prod(1, "a"), closed, ask(promotion.Override)), "Promoting", "propose",
			started},
		{"(11) WindowClosed/override of another run",
			change(prod(1, "a"), closed, ask(promotion.Override, func(i *promotion.Intent) { i.Run = 6 })),
			"Blocked: WindowClosed", "", started},
		{"(11) WindowClosed/with autoMerge the proposal is not delayed", change(prod(1, "a"), closed, autoMerge),
			"Promoting", "propose", started},
		{"(11) WindowClosed/not in a rollback", change(prod(1, "a"), closed, cause(promotion.ByRollback)),
			"Promoting", "propose", started},
		{"(12) AttemptFailed", change(prod(1, "a"), tried(promotion.OpPropose, promotion.AttemptFailed, time.Hour)),
			"Blocked: AttemptFailed", "", started},
		{"(12) AttemptFailed/NoMarkers", change(prod(1, "a"),
			tried(promotion.OpPropose, promotion.AttemptFailed, time.Hour, class(promotion.ErrNoMarkers))),
			"Blocked: NoMarkers", "", started},
		{"(12) AttemptFailed/inputs changed", change(prod(1, "a"),
			tried(promotion.OpPropose, promotion.AttemptFailed, time.Hour), inputs),
			"Promoting", "propose again", started},
		{"(12) AttemptFailed/a retry was requested",
			change(prod(1, "a"), tried(promotion.OpPropose, promotion.AttemptFailed, time.Hour),
				ask(promotion.Retry)),
			"Promoting", "propose again", started},
		{"(12) AttemptFailed/a retry before it", change(prod(1, "a"),
			tried(promotion.OpPropose, promotion.AttemptFailed, 0), ask(promotion.Retry)),
			"Blocked: AttemptFailed", "", started},
		{"(13) AttemptLive", change(prod(1, "a"), tried(promotion.OpPropose, promotion.AttemptLive, 0)),
			"Promoting: AttemptLive", "", started},
		{"(13) Rechecking", prod(1, "~a"), "Blocked: Rechecking", "", started},
		{"(13) Rechecking/of a predecessor", change(prod(1, "a"),
			func(in *promotion.EnvInput) { in.Kept = reason(promotion.WhyRechecking) }),
			"Blocked: Rechecking", "", started},
		{"all that apply", change(prod(1, "~a"), suspend, func(in *promotion.EnvInput) {
			in.Env.Strategy, in.Passed = promotion.ByHand, false
			in.Before, in.Introduced = []promotion.Reason{{Code: promotion.WhyPredecessorWentBack}},
				reason(promotion.WhyIntroducedAfter)
			in.Busy = reason(promotion.WhyBusy)
		}, hold(promotion.SpecHold{}), frozenUntil(time.Time{}), ask(promotion.Reject), closed,
			tried(promotion.OpPropose, promotion.AttemptFailed, time.Hour)),
			"Blocked: Suspended PredecessorWentBack IntroducedAfter PromotedByHand Held Frozen Declined " +
				"Busy WindowClosed AttemptFailed Rechecking", "", ""},
	})
}

// TestStepFollowsTheProposal plays the list of steps by the state of the proposal.
func TestStepFollowsTheProposal(t *testing.T) {
	t.Parallel()
	checks := func(c promotion.Checks) func(*promotion.Proposal) {
		return func(p *promotion.Proposal) { p.Checks = c }
	}
	forQ := func(p *promotion.Proposal) { p.Revision, p.Run = "a2", 5 }
	outdated := func(in *promotion.EnvInput) { in.Outdated = 5 }
	head := func(base, sha string) func(*promotion.Attempt) {
		return func(a *promotion.Attempt) { a.Base, a.Head = base, sha }
	}
	closedBefore := func(in *promotion.EnvInput) {
		in.Attempts[promotion.AttemptKey{Run: 5, Env: "prod",
			Op: promotion.OpClose}] = promotion.Attempt{Status: promotion.AttemptDone}
	}
	moved := func(a *promotion.Attempt) { a.Class, a.Head = promotion.ErrHeadMoved, "h0" }
	notify := func(in *promotion.EnvInput) { in.Env.Strategy = promotion.Notification }
	const started = "stage-started"
	judgeAll(t, []judged{
		{"merged for R in this run", change(prod(1, "a"), proposed(ended(promotion.Merged))),
			"RollingOut: RollingOut", "", started + ", environment-promoted"},
		{"merged for R in this run/in another", change(prod(1, "a"),
			proposed(ended(promotion.Merged), func(p *promotion.Proposal) {
				p.Run, p.At = 3, noon.Add(-2*time.Hour)
			})), "Promoting", "propose", started},
		{"merged for R in this run/adopted", change(prod(1, "a"),
			proposed(ended(promotion.Merged), func(p *promotion.Proposal) { p.Run = 0 })),
			"RollingOut: RollingOut", "", started + ", environment-promoted"},
		{"merged for R in this run/while it rolls out", change(prod(1, "a>b"), proposed(ended(promotion.Merged))),
			"RollingOut: RollingOut", "",
			started + ", environment-promoted"},
		{"none open", prod(1, "a"), "Promoting", "propose", started},
		{"none open/proposed and not observed yet",
			change(prod(1, "a"), tried(promotion.OpPropose, promotion.AttemptDone, time.Minute)),
			"Promoting: WaitingMerge", "", started},
		{"none open/proposed and gone", change(prod(1, "a"),
			tried(promotion.OpPropose, promotion.AttemptDone, 2*time.Minute)), "Promoting", "propose again", started},
		{"none open/closed in the second in which it was made", change(prod(1, "a"), // hosts report whole seconds
			tried(promotion.OpPropose, promotion.AttemptDone, 59*time.Second+100*time.Millisecond),
			proposed(ended(promotion.Closed), func(p *promotion.Proposal) { p.ClosedByUs, p.At = true, noon.Add(-time.Minute) })),
			"Promoting", "propose again", started},
		{"none open/a canceled attempt", change(prod(1, "a"),
			tried(promotion.OpPropose, promotion.AttemptCanceled, 0)), "Promoting", "propose again", started},
		{"none open/Git already contains R", change(prod(1, "a"), tried(promotion.OpPropose, promotion.AttemptDone, 0,
			func(a *promotion.Attempt) { a.Class = promotion.ErrAlreadyAsked })), "RollingOut: RollingOut", "",
			started + ", environment-promoted"},
		{"open for R with foreign commits", change(prod(1, "a"), autoMerge,
			proposed(checks(promotion.ChecksPassed), func(p *promotion.Proposal) { p.Foreign = true })),
			"Proposed: WaitingMerge", "", started},
		{"open for R with foreign commits/in conflict",
			change(prod(1, "a"), proposed(func(p *promotion.Proposal) { p.Foreign, p.Conflict = true, true })),
			"Proposed: WaitingMerge", "", started},
		{"open for R but in conflict", change(prod(1, "a"),
			proposed(func(p *promotion.Proposal) { p.Conflict = true })), "Proposed", "propose on new base", started},
		{"open for R but in conflict/marked lines changed",
			change(prod(1, "a"), proposed(func(p *promotion.Proposal) { p.LinesChanged = true })), "Proposed",
			"propose on new base", started},
		{"open for R but in conflict/behind", change(prod(1, "a"),
			proposed(func(p *promotion.Proposal) { p.Behind = true })), "Proposed", "propose on new base", started},
		{"open for R but in conflict/made again for this base",
			change(prod(1, "a"), proposed(func(p *promotion.Proposal) { p.Conflict = true }),
				tried(promotion.OpPropose, promotion.AttemptDone, time.Hour, head("b1", "h1"))),
			"Proposed: WaitingMerge",
			"", started},
		{"open for R but in conflict/made again for another base",
			change(prod(1, "a"), proposed(func(p *promotion.Proposal) { p.Conflict = true }),
				tried(promotion.OpPropose, promotion.AttemptDone, time.Hour, head("b0", "h1"))), "Proposed",
			"propose on new base", started},
		{"open for R but in conflict/blocked", change(prod(1, "a"), suspend,
			proposed(func(p *promotion.Proposal) { p.Conflict = true })), "Proposed: Suspended", "", started},
		{"open for R/without autoMerge", change(prod(1, "a"), proposed(checks(promotion.ChecksPassed))),
			"Proposed: WaitingMerge", "", started},
		{"open for R/checks pending", change(prod(1, "a"), autoMerge, proposed(checks(promotion.ChecksPending))),
			"Proposed: WaitingMerge", "", started},
		{"open for R/no checks reported", change(prod(1, "a"), autoMerge, proposed()), "Proposed: WaitingMerge", "",
			started},
		{"open for R/checks failed", change(prod(1, "a"), autoMerge, proposed(checks(promotion.ChecksFailed))),
			"Proposed: ChecksFailed", "", started},
		{"open for R/checks passed", change(prod(1, "a"), autoMerge, proposed(checks(promotion.ChecksPassed))),
			"Proposed", "merge", started},
		{"open for R/checks not required", change(prod(1, "a"), autoMerge, proposed(),
			func(in *promotion.EnvInput) { in.Env.AutoMerge.IgnoreChecks = true }),
			"Proposed", "merge", started},
		{"open for R/window closed", change(prod(1, "a"), autoMerge, closed,
			proposed(checks(promotion.ChecksPassed))), "Proposed: WindowClosed", "", started},
		{"open for R/blocked", change(prod(1, "a"), autoMerge, suspend, proposed(checks(promotion.ChecksPassed))),
			"Proposed: Suspended", "", started},
		{"open for R/HeadMoved", change(prod(1, "a"), autoMerge, proposed(checks(promotion.ChecksPassed)),
			tried(promotion.OpMerge, promotion.AttemptFailed, 0, moved)), "Proposed", "merge again", started},
		{"open for R/HeadMoved, not observed yet",
			change(prod(1, "a"), autoMerge, proposed(checks(promotion.ChecksPassed),
				func(p *promotion.Proposal) { p.Head = "h0" }),
				tried(promotion.OpMerge, promotion.AttemptFailed, 0, moved)), "Proposed: WaitingMerge", "", started},
		{"open for R/HeadMoved, not observed for long",
			change(prod(1, "a"), autoMerge, proposed(checks(promotion.ChecksPassed),
				func(p *promotion.Proposal) { p.Head = "h0" }),
				tried(promotion.OpMerge, promotion.AttemptFailed, 2*time.Minute, moved)), "Proposed", "merge again",
			started},
		{"open for R/merged", change(prod(1, "a"), autoMerge, proposed(),
			tried(promotion.OpMerge, promotion.AttemptDone, 0)), "RollingOut: RollingOut", "",
			started + ", environment-promoted"},
		{"open for another Q", change(prod(1, "a"), proposed(forQ)), "Promoting", "propose", started},
		{"open for another Q/being superseded", change(prod(1, "a"),
			tried(promotion.OpPropose, promotion.AttemptLive, 0), proposed(forQ), outdated),
			"Promoting: AttemptLive", "", started},
		{"open for another Q/blocked, Q's run is superseded", change(prod(1, "a"), suspend, proposed(forQ), outdated),
			"Blocked: Suspended", "close", started},
		{"open for another Q/blocked, Q's run is not", change(prod(1, "a"), suspend, proposed(forQ)),
			"Blocked: Suspended", "", started},
		{"open for another Q/closed once", change(prod(1, "a"), suspend, proposed(forQ), outdated, closedBefore),
			"Blocked: Suspended", "", started},
		{"Close/complete", change(prod(1, "b"), has(promotion.StageFinished, 0), has(promotion.StageStarted, 0),
			proposed(forQ), outdated), "Complete", "close", "target-healthy p"},
		{"Close/failed", change(prod(1, "!b"), proposed(forQ), outdated), "Failed: TargetFailed", "close", started},
		{"Close/rolling out", change(prod(1, "a>b"), proposed(forQ), outdated), "RollingOut: RollingOut", "close",
			started},
		{"Close/ahead", change(prod(1, "c"), proposed(forQ), outdated), "Blocked: Ahead", "close", started},
		{"Close/not while unknown", change(prod(1, "?"), proposed(forQ), outdated), "Unknown: TargetUnknown", "", ""},
		{"notification", change(prod(1, "a"), notify), "Promoting", "notify", started},
		{"notification/accepted", change(prod(1, "a"), notify, tried(promotion.OpNotify, promotion.AttemptDone, 0)),
			"RollingOut: RollingOut", "",
			started + ", environment-promoted"},
		{"notification/failed", change(prod(1, "a"), notify, tried(promotion.OpNotify, promotion.AttemptFailed, 0)),
			"Blocked: AttemptFailed", "", started},
	})
}

// TestAttemptsAreCanceled: each row of the table of counts, and each reason.
func TestAttemptsAreCanceled(t *testing.T) {
	t.Parallel()
	live := func(in *promotion.EnvInput) { tried(promotion.OpPropose, promotion.AttemptLive, 0)(in) }
	merging := func(in *promotion.EnvInput) {
		autoMerge(in)
		proposed()(in)
		tried(promotion.OpMerge, promotion.AttemptLive, 0)(in)
	}
	older := func(in *promotion.EnvInput) {
		in.Attempts[promotion.AttemptKey{Run: 6, Env: "prod",
			Op: promotion.OpPropose}] = promotion.Attempt{Status: promotion.AttemptLive}
	}
	closing := func(in *promotion.EnvInput) {
		in.Attempts[promotion.AttemptKey{Run: 6, Env: "prod",
			Op: promotion.OpClose}] = promotion.Attempt{Status: promotion.AttemptLive}
	}
	over := func(in *promotion.EnvInput) { in.IsOver = func(run int64) bool { return run == 6 } }
	before := func(in *promotion.EnvInput) {
		in.Passed, in.Before = false, []promotion.Reason{{Code: promotion.WhyPredecessorUnhealthy}}
	}
	none := func(in *promotion.EnvInput) { in.Run = nil }
	gating := func(when promotion.GateWhen) func(*promotion.EnvInput) {
		return func(in *promotion.EnvInput) {
			gates(when, "one")(in)
			triedGate("one", promotion.AttemptLive)(in)
		}
	}
	const started = "stage-started"
	judgeAll(t, []judged{
		{"nothing applies", change(prod(1, "a"), live), "Promoting: AttemptLive", "", started},
		{"(1)", change(prod(1, "a"), live, suspend), "Blocked: Suspended AttemptLive", "cancel propose", started},
		{"(2)", change(prod(1, "a"), live, before), "Blocked: PredecessorUnhealthy AttemptLive", "cancel propose", ""},
		{"(5)", change(prod(1, "a"), live, frozenUntil(time.Time{})), "Blocked: Frozen AttemptLive", "cancel propose",
			started},
		{"(6)", change(prod(1, "a"), live, ask(promotion.Reject)), "Blocked: Declined AttemptLive", "cancel propose",
			started},
		{"(7)", change(prod(1, "a"), live, has(promotion.EnvPromoted, 0)), "RollingOut: RollingOut", "cancel propose",
			started},
		{"(11)", change(prod(1, "a"), live, closed), "Blocked: WindowClosed AttemptLive", "cancel propose", started},
		{"(11)/with autoMerge not the proposal", change(prod(1, "a"), live, closed, autoMerge),
			"Promoting: AttemptLive", "", started},
		{"(11)/with autoMerge the merge", change(prod(1, "a"), merging, closed,
			func(in *promotion.EnvInput) { in.Proposal.Checks = promotion.ChecksPassed }),
			"Proposed: AttemptLive WindowClosed", "cancel merge", started},
		{"(13)/Rechecking", change(prod(1, "~a"), live), "Blocked: AttemptLive Rechecking", "", started},
		{"WaitingMerge does not cancel", change(prod(1, "a"), merging), "Proposed: AttemptLive WaitingMerge", "",
			started},
		{"(1), (5), (6) in every row/complete", change(prod(1, "b"), live, suspend), "Complete", "cancel propose",
			started + ", target-healthy p, stage-finished-successfully"},
		{"(1), (5), (6) in every row/failed", change(prod(1, "!b"), live, ask(promotion.Reject)),
			"Failed: TargetFailed", "cancel propose", started},
		{"(1), (5), (6) in every row/rolling out", change(prod(1, "a>b"), live, frozenUntil(time.Time{})),
			"RollingOut: RollingOut", "cancel propose", started},
		{"(1), (5), (6) in every row/but Unknown", change(prod(1, "?"), live, suspend), "Unknown: TargetUnknown", "",
			""},
		{"(1), (5), (6) in every row/without Want", change(prod(1, "a"), live, suspend, none),
			"Waiting: EnvironmentNotReady", "cancel propose", ""},
		{"the other reasons in the last row only", change(prod(1, "a>b"), live, before), "RollingOut: RollingOut", "",
			""},
		{"a run that E does not want", change(prod(1, "a"), older), "Promoting: AttemptLive", "cancel propose",
			started},
		{"a run that E does not want/Unknown", change(prod(1, "?"), older), "Unknown: TargetUnknown", "", ""},
		{"a run that E does not want/without Want", change(prod(1, "a"), older, none), "Waiting: EnvironmentNotReady",
			"", ""},
		{"a superseded run in any phase/Unknown", change(prod(1, "?"), older, over), "Unknown: TargetUnknown",
			"cancel propose", ""},
		{"a superseded run in any phase/without Want", change(prod(1, "a"), older, over, none),
			"Waiting: EnvironmentNotReady", "cancel propose", ""},
		{"a superseded run in any phase/not its Close", change(prod(1, "a"), closing, over), "Promoting", "propose",
			started},
		{"gates After continue", change(prod(1, "b"), gating(promotion.After), suspend), "Verifying: WaitingGate", "",
			started + ", target-healthy p"},
		{"gates Before/(1) to (8)", change(prod(1, "a"), gating(promotion.Before), before),
			"Blocked: PredecessorUnhealthy", "cancel gate one", ""},
		{"gates Before/(11) lets them run", change(prod(1, "a"), gating(promotion.Before), closed),
			"Blocked: WaitingGate WindowClosed", "", started},
	})
}

func TestVerdictKeepsTheStartOfAStay(t *testing.T) {
	t.Parallel()
	v := promotion.Judge(change(prod(1, "b"), soak(time.Minute), was(promotion.PhaseSoaking, time.Hour)))
	if want := noon.Add(-time.Hour); v.Phase != promotion.PhaseComplete || !v.Since.Equal(want) {
		t.Errorf("got %s since %v, want Complete since %v", v.Phase, v.Since, want)
	}
	if v = promotion.Judge(change(prod(1, "!b"), was(promotion.PhaseComplete, time.Hour))); !v.Since.Equal(noon) {
		t.Errorf("failed since %v, want now", v.Since)
	}
	if v = promotion.Judge(change(prod(1, "b"), soak(time.Minute),
		was(promotion.PhaseSoaking, -time.Hour))); !v.Since.Equal(noon) {
		t.Errorf("a start in the future: since %v, want now", v.Since)
	}
}

func TestTimesOfHostsAreClipped(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ at, want time.Time }{
		"in the future":  {noon.Add(time.Hour), noon},
		"before the run": {noon.Add(-2 * time.Hour), noon.Add(-time.Hour)},
	} {
		v := promotion.Judge(change(prod(1, "a"), proposed(ended(promotion.Merged),
			func(p *promotion.Proposal) { p.At = c.at })))
		if got := v.Facts[len(v.Facts)-1]; got.Event != promotion.EnvPromoted || !got.At.Equal(c.want) {
			t.Errorf("%s: got %+v, want the promotion at %v", name, got, c.want)
		}
	}
}

// TestApprovalsOfNamesThatLookLikeOthers: a name is never that of a group or a key.
func TestApprovalsOfNamesThatLookLikeOthers(t *testing.T) {
	t.Parallel()
	ops := func(by ...string) *admission.Approval { return &admission.Approval{Count: 1, By: by} }
	person := func(name string, groups ...string) admission.Person {
		return admission.Person{Name: name, Groups: groups}
	}
	for _, c := range []struct {
		name  string
		need  *admission.Approval
		by    admission.Person
		proof string
		want  bool
	}{
		{"anyone", ops(), person("ana"), promotion.ProofToken, true},
		{"a token", ops("ana"), person("ana"), promotion.ProofToken, true},
		{"a Kubernetes user", ops("ana"), person("ana"), promotion.ProofKubernetes, true},
		{"not named", ops("bob"), person("ana"), promotion.ProofKubernetes, false},
		{"a group", ops("group:ops"), person("ana", "ops"), promotion.ProofKubernetes, true},
		{"a user named as a group", ops("group:ops"), person("group:ops"), promotion.ProofKubernetes, false},
		{"a key", ops("key:apps/fleet"), person("key:apps/fleet#1"), promotion.ProofKey, true},
		{"a key of another Secret", ops("key:apps/fleet"), person("key:apps/fleet2#1"), promotion.ProofKey, false},
		{"a user named as a key", ops("key:apps/fleet"), person("key:apps/fleet"), promotion.ProofKubernetes, false},
		{"a key named as a user", ops("ana"), person("ana"), promotion.ProofKey, false},
	} {
		if got := promotion.MayApprove(c.need, c.by, c.proof); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// TestKeysOfOneSecretAreOneIdentity: two keys do not make two approvals.
func TestKeysOfOneSecretAreOneIdentity(t *testing.T) {
	t.Parallel()
	key := func(name string) func(*promotion.Intent) {
		return func(i *promotion.Intent) { i.By.Name, i.Proof = name, promotion.ProofKey }
	}
	two := func(in *promotion.EnvInput) { in.Env.Approval = &admission.Approval{Count: 2} }
	v := promotion.Judge(change(prod(1, "a"), two, ask(promotion.Approve, key("key:apps/fleet#1")),
		ask(promotion.Approve, key("key:apps/fleet#2"))))
	if got := codes(v); got != "Blocked: WaitingApproval" || v.Why[0].Message != "approval 1 of 2" {
		t.Errorf("got %s %+v, want one approval", got, v.Why)
	}
}
