package schedule

import (
	"fmt"
	"strings"
	"time"
)

// Explain lists the steps of a deployment breadth-first, each with its state and reason.
func (e *Engine) Explain(number int64, now time.Time) []StepState {
	t, ok := e.trips[number]
	if !ok {
		return nil
	}
	list := make([]StepState, len(t.plan.nodes))
	for n := range list {
		list[n] = e.explain(t, int32(n))
	}
	return list
}

func (e *Engine) explain(t *trip, n int32) StepState {
	s := StepState{
		StepKey: StepKey{t.number, t.plan.target(n), t.plan.nodes[n].event},
		Work:    t.plan.nodes[n].kind.takesAction(),
	}
	if t.at[n] != 0 {
		s.At = time.Unix(0, t.at[n]).UTC()
	}
	switch {
	case t.is(n, complete):
		s.State = Complete
	case t.is(n, excluded):
		s.State, s.Reason = Excluded, t.whyExcluded(e, n)
	case t.isElided(n):
		s.State, s.Reason = Elided, "elided: "+later(t.plan, t.walk, n)
	case t.is(n, claimed):
		s.State = Claimed
	case t.is(n, failed):
		s.State = Broken
		s.Reason, s.Who = "failed: "+t.failures[stepName{s.Target, s.Event}].String(), "waybill deployment retry "+e.label(t)
	default:
		s.State = Waiting
		b := e.check(t, n)
		if b.why == runs {
			s.State = CanRun
			return s
		}
		s.Reason, s.Who = e.reason(t, n, b)
	}
	return s
}

// reason tells the first condition that fails, and who can change that; "" where it passes by itself.
func (e *Engine) reason(t *trip, n int32, b block) (text, who string) {
	p := t.plan
	switch b.why {
	case notActive:
		text = e.label(t) + " is " + string(t.status)
		if t.status == FailedRun {
			who = "waybill deployment retry " + e.label(t)
		}
	case isHeld:
		h, _ := t.heldAt(p.nodes[n].stage)
		text, who = "held by "+h.by, "waybill deployment resume "+e.label(t)
		if h.reason != "" {
			text += fmt.Sprintf(": %q", h.reason)
		}
	case isWaiting:
		text = "waits for " + p.name(b.n)
	case isStopped:
		text, who = "stopped: "+t.whyStopped(p.nodes[n].stage), "waybill deployment retry "+e.label(t)
	case noArtifact, lostArtifact:
		text = fmt.Sprintf("waits for artifact %s of revision %s", artifactLabel(p.nodes[n].event), t.label)
		if p.def.Stages[p.nodes[n].stage].Build.External {
			who = "waybill revision artifact"
		}
	case isLocked:
		text = e.whoHolds(p, b)
	case notNewest:
		text = fmt.Sprintf("batch %s: %s is newer and enters first", p.short(string(b.batch)), e.label(b.trip))
	case keepsOrder:
		text = fmt.Sprintf("order strict: %s has still to pass %s", e.label(b.trip), p.short(string(b.batch)))
	case isBusy:
		text = fmt.Sprintf("%s is still busy with %s %s", lastPart(p.target(n)), e.label(b.trip), b.step.event)
	case isFull:
		text = fmt.Sprintf("%d of %d hosts in flight", b.in, b.limit)
	}
	return text, who
}

// whoHolds is "batch prod is held by greeter#6 since 14:02 (host-deployed on fir)".
func (e *Engine) whoHolds(p *Plan, b block) string {
	text := fmt.Sprintf("batch %s is held by %s since %s", p.short(string(b.batch)), e.label(b.trip), e.holder[b.batch].since.UTC().Format("15:04"))
	if at := b.trip.atWork(b.batch); at != "" {
		text += " (" + at + ")"
	}
	return text
}

// atWork is what a holder does inside: its first live action there, or what has failed.
func (t *trip) atWork(id batchID) string {
	b, ok := t.plan.batch(id)
	if !ok {
		return ""
	}
	for _, name := range t.live.sorted() {
		l := t.live[name]
		inside := b.host >= 0 && l.host == string(id)
		for _, s := range b.stages {
			inside = inside || b.host < 0 && l.stage == t.plan.stages[s].path
		}
		if inside {
			return name.event + " on " + lastPart(name.target)
		}
	}
	for _, s := range b.stages {
		if t.failing[s] > 0 {
			return "failed"
		}
	}
	return ""
}

// whyStopped is "elm failed in prod/east".
func (t *trip) whyStopped(stage int32) string {
	var first stepName
	seq := int64(0)
	for _, s := range t.plan.stages[stage].scope {
		for name, f := range t.failures {
			if t.failing[s] > 0 && covers(t.plan.stages[s].path, "", name) && (seq == 0 || f.seq < seq) {
				first, seq = name, f.seq
			}
		}
	}
	if i := strings.LastIndexByte(t.plan.short(first.target), '/'); i >= 0 {
		return lastPart(first.target) + " failed in " + t.plan.short(first.target)[:i]
	}
	return t.plan.short(first.target) + " failed"
}

// whyExcluded is the reason of the first exclusion that covers the step.
func (t *trip) whyExcluded(e *Engine, n int32) string {
	name := stepName{t.plan.target(n), t.plan.nodes[n].event}
	for _, list := range [][]exclusion{t.exclusions, e.strictExclusions(t.plan, t.revision)} {
		for _, x := range list {
			if covers(x.target, x.event, name) {
				return "excluded: " + endDetail{By: x.by, Reason: x.reason}.String()
			}
		}
	}
	return "excluded"
}

func lastPart(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }
