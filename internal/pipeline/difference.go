package pipeline

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
)

// difference describes in words how two versions of a definition differ, in file order. Single values are shown with
// both versions; of a structure it only reports that it changed, since its parts may be long.
func difference(old, next *Definition) []string {
	d := differ{old: old, next: next, isSame: sameInGeneral(old, next)}
	for i := range next.Stages {
		d.stage(&next.Stages[i])
	}
	for i := range old.Stages {
		if s := &old.Stages[i]; d.stageNow(s) == nil {
			d.stageLeft(s)
		}
	}
	d.steps("+", next, d.stageBefore)
	d.steps("-", old, d.stageNow)
	d.changedSteps()
	d.batches()
	d.change("order", string(old.Order), string(next.Order))
	d.change("pin", fmt.Sprint(old.Pin), fmt.Sprint(next.Pin))
	d.differs("keep", old.Keep, next.Keep)
	d.ssh(cmp.Or(old.SSH, &SSH{}), cmp.Or(next.SSH, &SSH{}))
	d.change("service name", old.Service.Name, next.Service.Name)
	d.service("", withoutName(old.Service), withoutName(next.Service))
	d.differs("vars", old.Vars, next.Vars)
	return d.words
}

// differ collects the differences of two versions, one line for each.
type differ struct {
	old, next *Definition
	isSame    bool // what all stages share
	words     []string
}

// say adds a line.
func (d *differ) say(format string, args ...any) {
	d.words = append(d.words, fmt.Sprintf(format, args...))
}

// change adds the line of a text that was replaced; an empty side is a text that is new, or gone.
func (d *differ) change(what, from, to string) {
	if from != to {
		d.say("%s %s -> %s", what, cmp.Or(from, "none"), cmp.Or(to, "none"))
	}
}

// differs adds the line of a value that has changed, and nothing for an equal one.
func (d *differ) differs(what string, from, to any) {
	if !reflect.DeepEqual(from, to) {
		d.say("%s changed", what)
	}
}

// stage describes one stage of the new version against the stage of that name in the old one, or
// of a name that it had. A stage that was renamed without a word about it is one that went and one
// that came: the log knows stages by their names only.
func (d *differ) stage(s *Stage) {
	was := stageWas(d.old, s)
	if was == nil {
		d.say("+ stage %s after %s", s.Name, cmp.Or(strings.Join(s.After, ", "), "nothing"))
		return
	}
	// Most stages of a large edit are left alone, and comparing them word by word takes far longer.
	if d.isSame && sameStage(was, s) {
		return
	}
	if was.Name != s.Name {
		d.say("stage %s is now %s", was.Name, s.Name)
	}
	d.change("stage "+s.Name+": after", strings.Join(was.After, ", "), strings.Join(s.After, ", "))
	d.change("stage "+s.Name+": queue", string(was.Queue), string(s.Queue))
	d.change("stage "+s.Name+": onFailure", string(was.OnFailure), string(s.OnFailure))
	d.differs("windows of "+s.Name, was.Windows, s.Windows)
	d.differs("approval of "+s.Name, was.Approval, s.Approval)
	d.gates(s.Name, was.Gates, s.Gates)
	d.change("bake of "+s.Name, was.Bake.String(), s.Bake.String())
	d.differs("tests of "+s.Name, was.Test, s.Test)
	if was.Service != nil || s.Service != nil {
		d.service(" of "+s.Name, d.old.ServiceOf(was, nil, nil), d.next.ServiceOf(s, nil, nil))
	}
	d.differs("vars of "+s.Name, was.Vars, s.Vars)
	d.build(s.Name, was.Build, s.Build)
	d.environment(s.Name, was.Environment, s.Environment)
	for i := range s.Groups {
		d.group(s, was, &s.Groups[i])
	}
	for i := range was.Groups {
		if g := &was.Groups[i]; !slices.ContainsFunc(s.Groups,
			func(now Group) bool { before := groupWas(was, &now); return before != nil && before.Name == g.Name }) {
			d.say("- group %s/%s", s.Name, g.Name)
		}
	}
}

// stageLeft describes a stage that the new version lacks. Where a new stage has the same hosts, it was
// perhaps renamed, so the line says how the new stage keeps its history.
func (d *differ) stageLeft(s *Stage) {
	for i := range d.next.Stages {
		if next := &d.next.Stages[i]; d.stageBefore(next) == nil && sameHosts(s, next) {
			d.say("- stage %s, whose hosts %s has; if it was renamed, was: [%s] keeps its history", s.Name, next.Name, s.Name)
			return
		}
	}
	d.say("- stage %s", s.Name)
}

// sameHosts reports whether the groups of two stages have the same hosts, and at least one.
func sameHosts(a, b *Stage) bool {
	return len(a.Groups) > 0 && slices.EqualFunc(a.Groups, b.Groups, func(x, y Group) bool {
		return slices.EqualFunc(x.Hosts, y.Hosts, func(h, o Host) bool { return h.URL == o.URL })
	})
}

// gates describes which gates a stage has got and lost, and which do something else.
func (d *differ) gates(stage string, was, now []Gate) {
	name := func(g *Gate) string { return g.Name }
	for i := range now {
		if old := byName(was, now[i].Name, name); old == nil {
			d.say("+ gate %s of %s (%s)", now[i].Name, stage, now[i].When)
		} else {
			d.differs("gate "+now[i].Name+" of "+stage, *old, now[i])
		}
	}
	for i := range was {
		if byName(now, was[i].Name, name) == nil {
			d.say("- gate %s of %s", was[i].Name, stage)
		}
	}
}

// build describes what changed about how a stage is built; was or now is nil for a stage of another
// kind, whose groups are described instead.
func (d *differ) build(stage string, was, now *Build) {
	if was == nil || now == nil {
		return
	}
	for _, a := range now.Artifacts {
		if !slices.ContainsFunc(was.Artifacts, func(o Artifact) bool { return o.Label == a.Label }) {
			d.say("+ artifact %s of %s", a.Label, stage)
		}
	}
	for _, a := range was.Artifacts {
		if !slices.ContainsFunc(now.Artifacts, func(o Artifact) bool { return o.Label == a.Label }) {
			d.say("- artifact %s of %s", a.Label, stage)
		}
	}
	before, after := *was, *now
	before.Artifacts, after.Artifacts = nil, nil
	d.differs("build of "+stage, before, after)
}

// environment describes the changes of an environment; was or now is nil for a stage of another kind.
func (d *differ) environment(stage string, was, now *Environment) {
	if was == nil || now == nil {
		if was != now {
			d.say("kind of %s changed", stage)
		}
		return
	}
	for _, t := range now.Targets {
		if !slices.Contains(was.Targets, t) {
			d.say("+ target %s of %s", t, stage)
		}
	}
	for _, t := range was.Targets {
		if !slices.Contains(now.Targets, t) {
			d.say("- target %s of %s", t, stage)
		}
	}
	before, after := *was, *now
	before.Targets, after.Targets = nil, nil
	d.differs("environment of "+stage, before, after)
}

// group describes what changed in a group, and which hosts joined or left it. A host that moves to
// another group has left the one and joined the other, since its path is another.
func (d *differ) group(stage, stageBefore *Stage, g *Group) {
	path := stage.Name + "/" + g.Name
	was := groupWas(stageBefore, g)
	if was == nil {
		d.say("+ group %s", path)
		return
	}
	if was.Name != g.Name {
		d.say("group %s/%s is now %s", stageBefore.Name, was.Name, g.Name)
	}
	d.change("maxParallel of "+path, was.MaxParallel.String(), g.MaxParallel.String())
	d.change("maxFailed of "+path, was.MaxFailed.String(), g.MaxFailed.String())
	d.change("joining of "+path, joining(was), joining(g))
	d.change("waves of "+path, was.Waves.String(), g.Waves.String())
	if was.Waves != nil && g.Waves != nil {
		d.change("bake of the waves of "+path, was.Waves.Bake.String(), g.Waves.Bake.String())
	}
	if was.Service != nil || g.Service != nil {
		d.service(" of "+path, d.old.ServiceOf(stageBefore, was, nil), d.next.ServiceOf(stage, g, nil))
	}
	d.differs("vars of "+path, was.Vars, g.Vars)
	before, after := hostsByName(was), hostsByName(g)
	for i := range g.Hosts {
		h := &g.Hosts[i]
		switch old, had := before[h.Name]; {
		case !had:
			d.say("+ host %s/%s", path, h.Name)
		case old.URL != h.URL:
			d.say("host %s/%s: %s -> %s", path, h.Name, old.URL, h.URL)
		default:
			if old.Service != nil || h.Service != nil {
				d.service(" of "+path+"/"+h.Name, d.old.ServiceOf(stageBefore, was, old), d.next.ServiceOf(stage, g, h))
			}
			d.differs("host "+path+"/"+h.Name, withoutService(*old), withoutService(*h))
		}
	}
	for i := range was.Hosts {
		if _, stays := after[was.Hosts[i].Name]; !stays {
			d.say("- host %s/%s", path, was.Hosts[i].Name)
		}
	}
}

// stageBefore returns what a stage of the new version was in the old one; nil for a new one.
func (d *differ) stageBefore(s *Stage) *Stage { return stageWas(d.old, s) }

// stageNow returns the stage of the new version that a stage of the old one is; nil for one that
// left.
func (d *differ) stageNow(s *Stage) *Stage {
	for i := range d.next.Stages {
		if was := stageWas(d.old, &d.next.Stages[i]); was != nil && was.Name == s.Name {
			return &d.next.Stages[i]
		}
	}
	return nil
}

// steps describes the chain steps that the stages of b have and their counterparts lack, once for
// all stages that have them at the same place.
func (d *differ) steps(sign string, b *Definition, counterpart func(*Stage) *Stage) {
	var order []string
	stages := map[string][]string{}
	for i := range b.Stages {
		s := &b.Stages[i]
		other := counterpart(s)
		if other == nil {
			continue
		}
		for c := range s.Chain {
			if byName(other.Chain, s.Chain[c].Event, stepEvent) != nil {
				continue
			}
			text := fmt.Sprintf("%s step %s", sign, s.Chain[c].Event)
			if c > 0 && sign == "+" {
				text += " after " + s.Chain[c-1].Event
			}
			if stages[text] == nil {
				order = append(order, text)
			}
			stages[text] = append(stages[text], s.Name)
		}
	}
	for _, text := range order {
		d.say("%s (%s)", text, strings.Join(stages[text], ", "))
	}
}

// changedSteps writes what changed about the steps that both versions have, once for all steps and
// stages where it is the same.
func (d *differ) changedSteps() {
	var order []stepChange
	stages := map[stepChange][]string{}
	for i := range d.next.Stages {
		s := &d.next.Stages[i]
		was := stageWas(d.old, s)
		if was == nil {
			continue
		}
		for _, c := range stepChanges(was.Chain, s.Chain) {
			if stages[c] == nil {
				order = append(order, c)
			}
			stages[c] = append(stages[c], s.Name)
		}
	}
	for _, c := range order {
		d.say("%s %s: %s -> %s", c.subject, strings.Join(stages[c], ", "), c.from, c.to)
	}
}

// stepChange is one difference between two chains; the stages follow the subject.
type stepChange struct{ subject, from, to string }

// stepChanges lists what differs between two chains: the order of the steps that both have, and
// what each of these does, such as "retries of replicate, deploy in" a stage, 2, 5.
func stepChanges(old, next []Step) []stepChange {
	var list []stepChange
	var order []string
	steps := map[stepChange][]string{}
	var changes []stepChange
	for i := range next {
		was := byName(old, next[i].Event, stepEvent)
		if was == nil {
			continue
		}
		order = append(order, next[i].Name)
		for _, c := range stepFields(was, &next[i]) {
			if steps[c] == nil {
				changes = append(changes, c)
			}
			steps[c] = append(steps[c], next[i].Name)
		}
	}
	var before []string
	for i := range old {
		if byName(next, old[i].Event, stepEvent) != nil {
			before = append(before, old[i].Name)
		}
	}
	if reordered(old, next) != "" {
		list = append(list, stepChange{"steps of", strings.Join(before, ", "), strings.Join(order, ", ")})
	}
	for _, c := range changes {
		list = append(list, stepChange{fmt.Sprintf("%s of %s in", c.subject, strings.Join(steps[c], ", ")), c.from, c.to})
	}
	return list
}

// reordered returns the first event that two chains share in another order; "" if their order
// agrees.
func reordered(old, next []Step) string {
	shared := func(list, other []Step) (events []string) {
		for _, s := range list {
			if slices.ContainsFunc(other, func(o Step) bool { return o.Event == s.Event }) {
				events = append(events, s.Event)
			}
		}
		return events
	}
	before, after := shared(old, next), shared(next, old)
	for i := range before {
		if before[i] != after[i] {
			return after[i]
		}
	}
	return ""
}

// stepFields lists what differs between two versions of a step, by field.
func stepFields(old, next *Step) []stepChange {
	var list []stepChange
	add := func(field string, from, to any) {
		if before, after := fmt.Sprint(from), fmt.Sprint(to); before != after {
			list = append(list, stepChange{field, cmp.Or(before, "none"), cmp.Or(after, "none")})
		}
	}
	p, q := &old.Policy, &next.Policy
	add("name", old.Name, next.Name)
	add("run", strings.Join(old.Run, " "), strings.Join(next.Run, " "))
	add("env", old.Env, next.Env)
	add("once", old.Once, next.Once)
	add("retries", p.Retries, q.Retries)
	add("initial back-off", time.Duration(p.Initial), time.Duration(q.Initial))
	add("factor", p.Factor, q.Factor)
	add("longest back-off", time.Duration(p.Max), time.Duration(q.Max))
	add("jitter", p.Jitter, q.Jitter)
	add("back-off schedule", durations(p.Schedule), durations(q.Schedule))
	add("attemptTimeout", time.Duration(p.AttemptTimeout), time.Duration(q.AttemptTimeout))
	add("deadline", time.Duration(p.Deadline), time.Duration(q.Deadline))
	return list
}

// durations writes a list of times with commas.
func durations(list []action.Duration) string {
	words := make([]string, len(list))
	for i, d := range list {
		words[i] = time.Duration(d).String()
	}
	return strings.Join(words, ", ")
}

// batches describes batches by name.
func (d *differ) batches() {
	name := func(b *Batch) string { return b.Name }
	for i := range d.next.Batches {
		b := &d.next.Batches[i]
		switch was := byName(d.old.Batches, b.Name, name); {
		case was == nil:
			d.say("+ batch %s (%s)", b.Name, strings.Join(b.Stages, ", "))
		default:
			d.differs("batch "+b.Name, *was, *b)
		}
	}
	for i := range d.old.Batches {
		if b := &d.old.Batches[i]; byName(d.next.Batches, b.Name, name) == nil {
			d.say("- batch %s", b.Name)
		}
	}
}

// service describes what changed about a service: each name of its environment, and the rest at
// once. Values are not shown, since they may be long.
func (d *differ) service(of string, was, now Service) {
	for _, name := range slices.Sorted(maps.Keys(merge(was.Env, now.Env))) {
		before, had := was.Env[name]
		after, has := now.Env[name]
		switch {
		case !had:
			d.say("+ env %s%s", name, of)
		case !has:
			d.say("- env %s%s", name, of)
		case before != after:
			d.say("env %s%s changed", name, of)
		}
	}
	was.Env, now.Env = nil, nil
	d.differs("service"+of, was, now)
}

// ssh describes what changed about how ssh hosts are reached. Their users and ports are in their URLs.
func (d *differ) ssh(was, now *SSH) {
	d.change("ssh identity", was.Identity, now.Identity)
	d.change("ssh knownHosts", was.KnownHosts, now.KnownHosts)
	d.change("ssh jump", was.Jump, now.Jump)
	d.change("ssh jumpKey", was.JumpKey, now.JumpKey)
	d.change("ssh sudo", fmt.Sprint(was.Sudo), fmt.Sprint(now.Sudo))
}

// merge returns a map with the keys of both.
func merge(a, b map[string]string) map[string]string {
	both := make(map[string]string, len(a)+len(b))
	maps.Copy(both, a)
	maps.Copy(both, b)
	return both
}

// withoutService returns a host without its service, which is compared apart.
func withoutService(h Host) Host {
	h.Service = nil
	return h
}

// withoutName returns a service without its name, which is compared apart: another name is another
// resource.
func withoutName(s Service) Service {
	s.Name = ""
	return s
}

// findStage returns the stage of a name, or nil.
func findStage(d *Definition, name string) *Stage {
	return byName(d.Stages, name, func(s *Stage) string { return s.Name })
}

// findGroup returns the group of a name in a stage, or nil.
func findGroup(s *Stage, name string) *Group {
	return byName(s.Groups, name, func(g *Group) string { return g.Name })
}

func hostsByName(g *Group) map[string]*Host {
	m := make(map[string]*Host, len(g.Hosts))
	for i := range g.Hosts {
		m[g.Hosts[i].Name] = &g.Hosts[i]
	}
	return m
}

func stepEvent(s *Step) string { return s.Event }

// joining returns what a host that joins a finished group gets, as in waybill.yaml.
func joining(g *Group) string {
	if g.CatchUp {
		return "catch-up"
	}
	return "next"
}
