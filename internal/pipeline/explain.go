package pipeline

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Explain lists the steps of a deployment breadth-first, each with its state and reason. now is the
// time for the conditions that depend on it, such as windows. Steps of a deployment that has ended
// have no times, since only the log keeps these. It returns nil for an unknown deployment.
func (e *Engine) Explain(number int64, now time.Time) []StepState {
	t, ok := e.deployments[number]
	if !ok {
		return nil
	}
	x := e.explanationOf(t, now)
	list := make([]StepState, len(t.plan.nodes))
	for n, at := range t.plan.rank {
		list[at] = x.step(int32(n))
	}
	return list
}

// explanation has what is computed once for the explanations of all steps of a deployment.
type explanation struct {
	e          *Engine
	t          *deployment
	now        time.Time
	exclusions []exclusion
	front      fronts
	retry      string              // the command that lets what has failed run again
	once       map[stepKind]string // the hosts that run the steps that run once, by path
}

func (e *Engine) explanationOf(t *deployment, now time.Time) explanation {
	return explanation{e: e, t: t, now: now, exclusions: slices.Concat(t.exclusions, t.impliedExclusions(t.plan)),
		once: map[stepKind]string{}, front: t.fronts(), retry: e.retryCommand(t)}
}

// step returns the state of one step. Excluded comes before elided, since it names a cause that
// people can look up.
func (x *explanation) step(n int32) StepState {
	e, t := x.e, x.t
	s := StepState{
		StepKey: StepKey{t.number, t.plan.target(n), t.plan.nodes[n].event},
		Work:    t.plan.nodes[n].kind.takesAction(),
		Wave:    t.plan.waveOf(n),
		On:      x.on(n),
	}
	if at := t.at.of(n); at != 0 {
		s.At = time.Unix(0, at).UTC()
	}
	switch {
	case t.is(n, complete):
		s.State = StateComplete
	case t.is(n, excluded):
		s.State, s.Reason = StateExcluded, x.whyExcluded(n)
	case t.isElided(n):
		s.State, s.Reason = StateElided, "elided: "+later(t.plan, t.walk, n)
	case t.is(n, claimed):
		s.State = StateClaimed
	case t.is(n, failed):
		s.State = StateFailed
		s.Reason, s.Who = "failed: "+t.failures[stepName{s.Target, s.Event}].String(), x.retry
	default:
		b := e.check(t, n, x.now)
		if b.why == runs {
			s.State = StateRunnable
			return s
		}
		s.State = StateWaiting
		s.Reason, s.Who = x.reason(n, b)
	}
	return s
}

// on returns the host that runs a step for all hosts of its stage; see onceOn.
func (x *explanation) on(n int32) string {
	at := &x.t.plan.nodes[n]
	if at.kind != onceStep {
		return ""
	}
	key := stepKind{x.t.plan.stages[at.stage].path, at.event}
	if _, known := x.once[key]; !known {
		x.once[key] = x.e.onceOn(x.t, n, x.now)
	}
	return x.once[key]
}

// retryCommand returns the command that lets the failed steps of a deployment run again: the retry
// or, before that, accepting its revision. It returns "" if a retry would be refused.
func (e *Engine) retryCommand(t *deployment) string {
	switch {
	case t.status != StatusActive && t.status != StatusFailed || e.outranks(t) != nil:
		return ""
	case t.rejected != nil:
		return fmt.Sprintf("waybill revision accept %s %s", e.pipeline, t.label)
	}
	return "waybill deployment retry " + e.label(t)
}

// reason describes the first condition that fails, and the command or the person that can change it; who is empty
// when the condition changes on its own.
func (x *explanation) reason(n int32, b block) (text, who string) {
	e, t, p := x.e, x.t, x.t.plan
	switch b.why { //exhaustive:enforce
	case runs, isOut, isDone, isLive, hasFailed: // the step itself has the reason, without a condition
	case notActive:
		text = e.label(t) + " is " + string(t.status)
		if t.status == StatusFailed {
			who = x.retry
		}
	case isHeld:
		text, who = x.holdText(n), e.resumeCommand(t, p.nodes[n].stage)
	case isWaiting:
		text = "waits for " + p.name(x.front.of(n))
	case isStopped:
		text, who = "stopped: "+t.whyStopped(p.nodes[n].stage), x.retry
	case noArtifact, lostArtifact:
		text = fmt.Sprintf("waits for artifact %s of revision %s", artifactLabel(p.nodes[n].event), t.label)
		if p.def.Stages[p.nodes[n].stage].Build.External {
			who = fmt.Sprintf("waybill revision artifact %s %s --arch %s FILE", p.def.Pipeline, t.label, artifactLabel(p.nodes[n].event))
		}
	case isLocked:
		text = e.whoHolds(p, b)
	case notNewest:
		text = fmt.Sprintf("batch %s: %s is newer and enters first", p.short(string(b.batch)), e.label(b.deployment))
	case keepsOrder:
		text = fmt.Sprintf("order strict: %s has still to pass %s", e.label(b.deployment), p.short(string(b.batch)))
	case isBusy, isOnce:
		text = e.actionText(p, n, b)
	case isFull:
		text = fmt.Sprintf("%d of %d hosts in flight", b.in, b.limit)
	case isFrozen, isClosed, notApproved:
		text, who = x.admissionText(n, b)
	}
	return text, who
}

// actionText describes the action, live or to come, that step n waits for.
func (e *Engine) actionText(p *Graph, n int32, b block) string {
	if b.why == isOnce {
		return "runs once, on " + p.short(b.step.target)
	}
	return fmt.Sprintf("%s is still busy with %s %s", lastPart(p.target(n)), e.label(b.deployment), b.step.event)
}

// holdText describes the hold that keeps step n from running, the stage that its deployment goes
// no further than, or the rejection of its revision.
func (x *explanation) holdText(n int32) string {
	h, _ := x.t.heldAt(x.t.plan.nodes[n].stage)
	text := "held by " + h.by
	switch {
	case h.rejected:
		return "revision " + x.t.label + " was rejected " + h.String()
	case h.until != "":
		text = x.e.label(x.t) + " goes no further than " + h.until
	}
	if h.reason != "" {
		text += fmt.Sprintf(": %q", h.reason)
	}
	return text
}

// whoHolds returns a text such as "batch prod is held by greeter#6 since 14:02 UTC (host-deployed
// on fir)".
func (e *Engine) whoHolds(p *Graph, b block) string {
	text := fmt.Sprintf("batch %s is held by %s since %s", p.short(string(b.batch)), e.label(b.deployment),
		e.holderOf(b.batch).since.UTC().Format("15:04 UTC"))
	if at := b.deployment.atWork(b.batch); at != "" {
		text += " (" + at + ")"
	}
	return text
}

// atWork returns what a holder does inside a batch: its first live action there, or "failed". It
// returns "" if the holder does nothing there now.
func (t *deployment) atWork(id batchID) string {
	b, ok := t.plan.batch(id)
	if !ok {
		return ""
	}
	for _, l := range t.live.sorted() {
		inside := b.host >= 0 && l.host == t.ids.hosts[b.host]
		for _, s := range b.stages {
			inside = inside || b.host < 0 && l.stage == t.ids.stages[s]
		}
		if inside {
			return l.name.event + " on " + lastPart(l.name.target)
		}
	}
	for _, s := range b.stages {
		if t.failing[s] > 0 {
			return "failed"
		}
	}
	return ""
}

// whyStopped returns a text such as "elm failed in prod/east", about the earliest failure that
// stops the stage.
func (t *deployment) whyStopped(stage int32) string {
	var first stepName
	seq := int64(0)
	for _, s := range t.plan.stages[stage].scope {
		for name, f := range t.failures {
			n := t.plan.find(name.target, name.event)
			if n >= 0 && t.isBroken(n) && t.failing[s] > 0 && covers(t.plan.stages[s].path, "", name) && (seq == 0 || f.seq < seq) {
				first, seq = name, f.seq
			}
		}
	}
	if i := strings.LastIndexByte(t.plan.short(first.target), '/'); i >= 0 {
		return lastPart(first.target) + " failed in " + t.plan.short(first.target)[:i]
	}
	return t.plan.short(first.target) + " failed"
}

// whyExcluded returns the reason of the first exclusion that covers the step.
func (x *explanation) whyExcluded(n int32) string {
	name := stepName{x.t.plan.target(n), x.t.plan.nodes[n].event}
	for _, each := range x.exclusions {
		if covers(each.target, each.event, name) {
			return "excluded: " + endDetail{By: each.by, Reason: each.reason}.String()
		}
	}
	return "excluded"
}
