package schedule

import (
	"fmt"
	"slices"
)

// exclusions is 4.9 and the first row of 4.10: what an edit excludes, as "deployment target event".
func (o *oracle) exclusions(from, to int, newest int64) map[string]bool {
	old, next := o.graphs[from], o.graphs[to]
	had, made, late := map[pair]bool{}, map[string]bool{}, map[pair]bool{}
	for i := range old.d.Stages {
		for _, p := range old.d.pairs(i) {
			had[p] = true
			made[artifactLabel(p.event)] = true
		}
	}
	found := map[string]bool{}
	for _, t := range o.trips {
		if t.status != Active && t.status != FailedRun || o.graph(t).d.Pin {
			continue
		}
		clear(late)
		var news []pair
		for p, i := range o.late {
			late[p] = t.revision <= i.after
		}
		for i := range next.d.Stages {
			for _, p := range next.d.pairs(i) {
				if !had[p] {
					news = append(news, p)
					late[p] = t.revision <= newest
				}
			}
		}
		version := t.version
		t.version = to
		mine := map[pair]bool{}
		for _, k := range news {
			label := artifactLabel(k.event)
			switch {
			case !late[k]:
			case label != "" && !made[label]:
				mine[k] = true
			case o.is010(t, next, late, k.event):
				for p := range late {
					if stage, _, _, ok := next.d.Find(p.stage); ok && p.event == k.event && late[p] && slices.Contains(next.d.pairs(slices.IndexFunc(next.d.Stages, func(s Stage) bool { return s.Name == stage.Name })), p) {
						mine[p] = true
					}
				}
			}
		}
		for p := range mine {
			if p.event != StageStarted {
				continue
			}
			for q, is := range late {
				if is && q.stage == p.stage {
					if i := slices.IndexFunc(next.d.Stages, func(s Stage) bool { return Path(next.d.Pipeline, s.Name) == q.stage }); i >= 0 && slices.Contains(next.d.pairs(i), q) {
						mine[q] = true
					}
				}
			}
		}
		before := t.exclusions
		for p := range mine {
			known := slices.ContainsFunc(before, func(x exclusion) bool { return x.target == p.stage && x.event == p.event })
			if !known {
				found[fmt.Sprintf("%d %s %s", t.number, p.stage, p.event)] = true
				t.exclusions = append(slices.Clip(t.exclusions), exclusion{target: p.stage, event: p.event})
			}
		}
		v := o.view(t)
		for i, s := range next.steps {
			if s.event != HostFinished || v.resolved[i] || next.elided(v.known, i) || old.has(stepName{s.target, HostStarted}) {
				continue
			}
			stage, group, h, _ := next.d.Find(s.target)
			if o.started[next.d.ResourceOf(stage, group, h)] > t.number {
				found[fmt.Sprintf("%d %s ", t.number, s.target)] = true
			}
		}
		t.exclusions, t.version = before, version
	}
	return found
}

// is010: a walk from some incomplete X of event K at a late pair, over late pairs up to and including the first
// step that is not late, meets a complete or claimed step.
func (o *oracle) is010(t *oracleTrip, g *oracleGraph, late map[pair]bool, event string) bool {
	isLate := func(s stepName) bool { return late[pair{stageOf(s.target), s.event}] }
	var meets func(s stepName) bool
	meets = func(s stepName) bool {
		for _, n := range g.nextOf(s) {
			_, live := t.live[n]
			if t.facts[n] || live || isLate(n) && meets(n) {
				return true
			}
		}
		return false
	}
	for _, s := range g.steps {
		if s.event == event && isLate(s) && !t.facts[s] && meets(s) {
			return true
		}
	}
	return false
}
