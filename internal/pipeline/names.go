package pipeline

import (
	"fmt"
	"slices"
	"strings"
)

// A stage or a group may list its former names (`was`). The log keeps the names of its time, so a question about a
// target is asked for each of its names. Facts under any name count. An edit that gives a name is refused while a
// deployment is active or may be retried, so no deployment has steps under two names.

// NamesOf returns the paths that a target of the definition has and had, its present one first. A
// target that is not in the definition has one name.
func (d *Definition) NamesOf(target string) []string {
	stage, group, _, ok := d.Find(target)
	if !ok || stage == nil {
		return []string{target}
	}
	parts := strings.Split(target, "/")
	below := [][]string{parts[2:]}
	if group != nil {
		for _, was := range group.Was {
			below = append(below, append([]string{was}, parts[3:]...))
		}
	}
	var names []string
	for _, name := range append([]string{stage.Name}, stage.Was...) {
		for _, rest := range below {
			names = append(names, Path(append([]string{d.Pipeline, name}, rest...)...))
		}
	}
	return names
}

// NameNow returns the path that a target has in the definition, where target may be a path that it
// had; the target itself if the definition has neither.
func (d *Definition) NameNow(target string) string {
	parts := strings.Split(target, "/")
	if len(parts) < 2 || parts[0] != d.Pipeline {
		return target
	}
	stage := findStage(d, parts[1])
	if stage == nil {
		i := slices.IndexFunc(d.Stages, func(s Stage) bool { return slices.Contains(s.Was, parts[1]) })
		if i < 0 {
			return target
		}
		stage = &d.Stages[i]
	}
	parts[1] = stage.Name
	if len(parts) > 2 && findGroup(stage, parts[2]) == nil {
		i := slices.IndexFunc(stage.Groups, func(g Group) bool { return slices.Contains(g.Was, parts[2]) })
		if i >= 0 {
			parts[2] = stage.Groups[i].Name
		}
	}
	return Path(parts...)
}

// hasFactAs reports whether the deployment has a fact of a target under one of its names.
func (t *deployment) hasFactAs(names []string, event string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return t.hasFact(name, event) })
}

// namesOf returns the names of a target by the definition in force.
func (e *Engine) namesOf(target string) []string {
	if plan := e.plans[e.version]; plan != nil {
		return plan.def.NamesOf(target)
	}
	return []string{target}
}

// stageWas returns the stage of an earlier definition that a stage of the next one was, by its
// name or by one that it had; nil for a stage that is new.
func stageWas(old *Definition, next *Stage) *Stage {
	for _, name := range append([]string{next.Name}, next.Was...) {
		if was := findStage(old, name); was != nil {
			return was
		}
	}
	return nil
}

// groupWas returns the group of an earlier stage that a group was; nil for a group that is new.
func groupWas(old *Stage, next *Group) *Group {
	for _, name := range append([]string{next.Name}, next.Was...) {
		if was := findGroup(old, name); was != nil {
			return was
		}
	}
	return nil
}

// formerNames judges the names that stages and groups had: each is of one, and none is in use.
func (j *judge) formerNames() {
	stages := formerly{"stage", map[string]string{}, func(name string) bool { return findStage(j.d, name) != nil }}
	for i := range j.d.Stages {
		s := &j.d.Stages[i]
		j.former(stages, s.Name, s.Was, stageScope(i))
		groups := formerly{"group", map[string]string{}, func(name string) bool { return findGroup(s, name) != nil }}
		for g := range s.Groups {
			j.former(groups, s.Groups[g].Name, s.Groups[g].Was, fmt.Sprintf("%s.groups[%d]", stageScope(i), g))
		}
	}
}

// formerly has the former names of stages, or of the groups of one stage.
type formerly struct {
	kind   string
	judged map[string]string // names that have them now, by former ones
	inUse  func(name string) bool
}

// former judges the names that one stage or group had.
func (j *judge) former(all formerly, name string, was []string, scope string) {
	for k, old := range was {
		at := fmt.Sprintf("%s.was[%d]", scope, k)
		switch other, taken := all.judged[old]; {
		case all.inUse(old):
			j.fault("name-in-use", at, "%s %q was %q, which is the name of a %s", all.kind, name, old, all.kind)
		case taken:
			j.fault("name-twice", at, "%s %q was %q, and so was %q", all.kind, name, old, other)
		}
		all.judged[old] = name
	}
}
