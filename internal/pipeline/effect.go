package pipeline

import (
	"fmt"
	"slices"
	"strings"
)

// effect compares a deployment on its graph with the same deployment on the next one. It uses a
// walk of its own over the next graph, so the deployment itself is not changed. exclusions are
// those that the edit would add.
func (e *Engine) effect(t *deployment, next *Graph, exclusions []exclusion) Effect {
	carried, moved := e.walkOn(t, next, exclusions...), e.movesTo(t.plan, next)
	after := carried.walk
	f := Effect{Deployment: t.number, Failed: t.status == StatusFailed}
	var without []int32 // hosts that the edit keeps the deployment from finishing
	touched := touchedSteps(t, next, carried, moved)
	f.Added = make([]StepKey, 0, len(touched)) // nearly all are added
	for _, n := range touched {
		f.add(t, next, after, n)
		if h := next.nodes[n].host; h >= 0 && next.hosts[h].finished() == n && after.isElided(n) {
			without = append(without, h)
		}
	}
	if len(f.Added) == 0 {
		f.Added = nil
	}
	for _, n := range moved.gone {
		if t.plan.nodes[n].isListed() && !t.is(n, complete) && !t.isElided(n) {
			f.Removed = append(f.Removed, StepKey{t.number, t.plan.target(n), t.plan.nodes[n].event})
		}
	}
	for _, l := range t.live.sorted() {
		name := l.name
		if n := next.find(name.target, name.event); n < 0 || after.isElided(n) {
			f.Drained = append(f.Drained, StepKey{t.number, name.target, name.event})
		}
	}
	f.Drifting = drifting(next, without)
	w := effectWriter{t: t, next: next, after: after, moved: moved, exclusions: exclusions}
	f.Words = append(w.write(f), e.keptWords(t, next, after)...)
	return f
}

// isListed reports whether effects list the step: markers follow from other steps and would only
// hide them.
func (n *node) isListed() bool { return n.kind != marker && n.kind != hostStart }

// touchedSteps lists the steps of the next graph that the edit touches. They are among those that
// were computed again: what is copied is neither new nor elided by the edit.
func touchedSteps(t *deployment, next *Graph, after carried, moved *moves) []int32 {
	var list []int32
	for _, s := range after.again {
		for n := next.stages[s].steps.from; n < next.stages[s].steps.to; n++ {
			if isTouched(t, after.walk, n, moved.back[n]) {
				list = append(list, n)
			}
		}
	}
	next.sort(list)
	return list
}

// isTouched reports whether the edit changes anything about a step of the next graph that is not
// complete: it is new or becomes elided. before is the step on the graph that the deployment has,
// or -1. Nearly every step of every deployment is left at this, so it looks at nothing but the
// walks.
func isTouched(t *deployment, after *walk, n, before int32) bool {
	switch {
	case after.is(n, complete):
		return false
	case before < 0:
		return true
	}
	return after.isElided(n) && !t.isElided(before)
}

// add adds a step that the edit touches to the effect.
func (f *Effect) add(t *deployment, next *Graph, after *walk, n int32) {
	if !next.nodes[n].isListed() {
		return
	}
	list := &f.Added // it is new, or it would not be touched
	switch {
	case after.is(n, excluded):
		list = &f.Excluded
	case after.isElided(n):
		list = &f.Elided
	}
	*list = append(*list, StepKey{t.number, next.target(n), next.nodes[n].event})
}

// drifting lists the hosts that the deployment was to finish before the edit, or that are new, and
// that it will not finish after the edit. They keep what another deployment left on them until a
// later deployment reaches them (R11). They are listed in file order.
func drifting(next *Graph, without []int32) []string {
	slices.Sort(without)
	var list []string
	for _, h := range without {
		list = append(list, next.short(next.hosts[h].path))
	}
	return list
}

// write describes the effect of an edit on a deployment: the stages, hosts and steps that it adds, those that it
// removes, and the actions to be drained.
func (w *effectWriter) write(f Effect) []string {
	w.stages()
	w.hosts()
	w.steps(f)
	for _, k := range f.Drained {
		w.say("%s %s is drained", w.next.short(k.Target), k.Event)
	}
	return w.words
}

// effectWriter describes an effect in words. after is the deployment's walk over the next graph.
type effectWriter struct {
	t          *deployment
	next       *Graph
	after      *walk
	moved      *moves
	exclusions []exclusion
	words      []string
}

// say adds a line.
func (w *effectWriter) say(format string, args ...any) {
	w.words = append(w.words, fmt.Sprintf(format, args...))
}

// stages describes the stages that the edit adds and removes. Whether a new stage runs is decided
// by its start.
func (w *effectWriter) stages() {
	for i := range w.next.stages {
		s := &w.next.stages[i]
		if _, was := w.t.plan.targets[s.path]; was {
			continue
		}
		w.runsOrNot("stage "+w.next.short(s.path), s.path, s.started)
	}
	for i := range w.t.plan.stages {
		s := &w.t.plan.stages[i]
		if _, stays := w.next.targets[s.path]; !stays && !w.t.is(s.finished, complete) {
			w.say("stage %s leaves", w.t.plan.short(s.path))
		}
	}
}

// hosts describes the hosts that join and leave in stages that exist before and after the edit.
// Hosts of a stage that comes or goes are covered by the line about the stage.
func (w *effectWriter) hosts() {
	for _, h := range w.moved.joined {
		host := &w.next.hosts[h]
		if _, stage := w.t.plan.targets[w.next.stages[host.stage].path]; stage {
			w.runsOrNot(lastPart(host.path), host.path, host.finished())
		}
	}
	for _, h := range w.moved.left {
		host := &w.t.plan.hosts[h]
		_, stage := w.next.targets[w.t.plan.stages[host.stage].path]
		if stage && !w.t.is(host.finished(), complete) {
			w.say("%s leaves", lastPart(host.path))
		}
	}
}

// runsOrNot describes whether a new stage or host runs; n is the step that decides it.
func (w *effectWriter) runsOrNot(what, target string, n int32) {
	switch {
	case w.after.is(n, complete):
		w.say("%s was done before and counts again", what)
	case !w.after.isElided(n):
		w.say("%s runs", what)
	default:
		w.say("%s is left out: %s", what, w.whyNot(target, n))
	}
}

// whyNot returns why a step is left out: the reason of an exclusion, or else the later work that
// was done without it.
func (w *effectWriter) whyNot(target string, n int32) string {
	for _, x := range w.exclusions {
		if covers(x.target, x.event, stepName{target, w.next.nodes[n].event}) {
			return x.reason
		}
	}
	return later(w.next, w.after, n)
}

// steps describes events that are new in stages that existed before, each event once. The waves of
// a group are described by the difference of the versions, and their markers do nothing.
func (w *effectWriter) steps(f Effect) {
	described := map[string]bool{}
	for _, i := range w.moved.news {
		for _, p := range w.next.stages[i].pairs {
			if described[p.event] || !w.isNew(p) || p.event == WaveStarted || p.event == WaveFinished {
				continue
			}
			described[p.event] = true
			w.step(f, p.event)
		}
	}
}

// isNew reports whether the deployment knows the stage but not the event in it.
func (w *effectWriter) isNew(p stepKind) bool {
	_, ok := w.t.plan.targets[p.stage]
	return ok && !w.t.plan.pairs[p]
}

// step describes the effect of the edit with one new event.
func (w *effectWriter) step(f Effect, event string) {
	runs, first := 0, ""
	for _, k := range f.Added {
		if k.Event == event {
			if runs++; runs == 1 {
				first = w.next.short(k.Target)
			}
		}
	}
	for _, x := range w.exclusions {
		if x.event == event {
			w.say("%s is left out: %s", event, x.reason)
			return
		}
	}
	switch {
	case artifactLabel(event) != "" && runs > 0:
		w.say("%s is built", artifactLabel(event))
	case runs == 1 && strings.HasPrefix(event, "host-"):
		w.say("%s runs on %s", event, first)
	case runs == 1:
		w.say("%s runs in %s", event, first)
	case runs > 1 && !strings.HasPrefix(event, "host-"):
		w.say("%s runs %d times, first in %s", event, runs, first)
	case runs > 1:
		w.say("%s runs on %d hosts, first on %s", event, runs, first)
	case artifactLabel(event) != "":
		w.say("%s was received before and counts again", artifactLabel(event))
	default:
		w.say("%s is left out: everything it would be on is done", event)
	}
}
