package pipeline

import (
	"fmt"
	"slices"

	"github.com/waybill-dev/waybill/internal/fault"
)

// refusals finds what an edit may not change while a deployment is inside a stage or may come back
// to it: the order of a chain and the wave of a host, since steps would be skipped without a
// notice; and where a host is and what runs there, since a chain would continue with files that are
// elsewhere.
func (e *Engine) refusals(next *Graph) fault.Problems {
	inside := slices.DeleteFunc(e.inside(), func(t *deployment) bool { return t.plan.def.Pin })
	var m *moves
	if old := e.plans[e.version]; old != nil {
		m = e.movesTo(old, next)
	}
	r := refusing{e: e, next: next, reported: map[string]bool{}}
	r.renames()
	for i := range next.def.Stages {
		// All deployments that are asked are on the graph in force, so where it is equal nothing moves.
		if m != nil && m.equal[i] {
			continue
		}
		for _, t := range inside {
			if t.isInsideStage(next.stages[i].path) {
				r.chain(t, i)
				r.waves(t, int32(i))
				r.hosts(t, int32(i))
				r.environment(t, i)
			}
		}
	}
	return r.problems
}

// refusing collects the problems of one edit, at most one for a place in the file: several
// deployments inside would refuse the same change for the same reason. The oldest is named.
type refusing struct {
	e        *Engine
	next     *Graph
	reported map[string]bool // by scope, which is a field path of the new version
	problems fault.Problems
}

// renames refuses another name for a stage or a group while a deployment is active or may be
// retried, pinned ones as well: it would have steps under two names.
func (r *refusing) renames() {
	old := r.e.plans[r.e.version]
	inside := r.e.inside()
	if old == nil || len(inside) == 0 {
		return
	}
	for i := range r.next.def.Stages {
		s := &r.next.def.Stages[i]
		was := stageWas(old.def, s)
		if was == nil {
			continue
		}
		if was.Name != s.Name {
			r.refuse("stage-renamed", stageScope(i)+".was", "stage %s cannot become %s while %s", was.Name, s.Name, r.state(inside[0]))
		}
		for g := range s.Groups {
			if other := groupWas(was, &s.Groups[g]); other != nil && other.Name != s.Groups[g].Name {
				r.refuse("group-renamed", fmt.Sprintf("%s.groups[%d].was", stageScope(i), g), "group %s/%s cannot become %s while %s",
					was.Name, other.Name, s.Groups[g].Name, r.state(inside[0]))
			}
		}
	}
}

// refuse adds a problem at a place of the file, unless there is one: of several deployments inside,
// the first one is reason enough.
func (r *refusing) refuse(code, scope, format string, args ...any) {
	if !r.reported[scope] {
		r.reported[scope] = true
		r.problems = append(r.problems, fault.Problem{Code: code, Scope: scope, Text: fmt.Sprintf(format, args...)})
	}
}

// state returns "shop#7 is inside", or that the deployment may come back.
func (r *refusing) state(t *deployment) string {
	if t.status == StatusFailed {
		return r.e.label(t) + " has failed inside and may be retried"
	}
	return r.e.label(t) + " is inside"
}

// chain refuses a changed order of steps that the old and the new chain share. A step that moved
// before a complete one would be elided, so it would be skipped without a notice. Added and removed
// steps are not refused; they are introduced, or vanish.
func (r *refusing) chain(t *deployment, stage int) {
	s := &r.next.def.Stages[stage]
	was := findStage(t.plan.def, s.Name)
	if was == nil {
		return
	}
	if event := reordered(was.Chain, s.Chain); event != "" {
		r.refuse("chain-reordered", stageScope(stage)+".steps",
			"chain of %s cannot be reordered while %s: %s would be skipped", s.Name, r.state(t), event)
	}
}

// waves refuses hosts that change their wave: one that moves to a wave that is done would be
// skipped without a notice.
func (r *refusing) waves(t *deployment, stage int32) {
	var later *walk
	for i, g := range r.next.stages[stage].groups {
		group := &r.next.groups[g]
		moved := t.movedHosts(r.next, g)
		if len(moved) == 0 {
			continue
		}
		if later == nil {
			later = r.e.walkOn(t, r.next).walk
		}
		h, what := moved[0], "would be skipped"
		at := slices.IndexFunc(moved, func(h int32) bool { return t.wouldSkip(r.next, later, h) })
		if at >= 0 {
			h = moved[at]
		} else {
			what = "would move to another wave"
		}
		r.refuse("waves-changed", fmt.Sprintf("%s.groups[%d].waves", stageScope(int(stage)), i), "waves of %s cannot change while %s: %s %s",
			r.next.short(group.path), r.state(t), r.next.hosts[h].spec.Name, what)
	}
}

// movedHosts lists the hosts of a group of the next version that the deployment's version has in
// another wave.
func (t *deployment) movedHosts(next *Graph, group int32) []int32 {
	var list []int32
	for _, h := range next.groups[group].hosts {
		at, ok := t.plan.targets[next.hosts[h].path]
		if ok && at.host >= 0 && t.plan.hosts[at.host].wave != next.hosts[h].wave {
			list = append(list, h)
		}
	}
	return list
}

// wouldSkip reports whether the next version elides a host that the deployment has still to do.
func (t *deployment) wouldSkip(next *Graph, later *walk, h int32) bool {
	was := t.plan.find(next.hosts[h].path, HostFinished)
	now := next.hosts[h].finished()
	return later.isElided(now) && !t.is(was, complete) && !t.isElided(was)
}

// hosts refuses changed identities of hosts that the deployment has started.
func (r *refusing) hosts(t *deployment, stage int32) {
	for i, g := range r.next.stages[stage].groups {
		group := fmt.Sprintf("%s.groups[%d]", stageScope(int(stage)), i)
		for j, h := range r.next.groups[g].hosts {
			r.host(t, h, group, fmt.Sprintf("%s.hosts[%d]", group, j))
		}
	}
}

// host refuses a changed identity of one host, and names what is to be done instead.
func (r *refusing) host(t *deployment, h int32, group, scope string) {
	host := &r.next.hosts[h]
	was, ok := t.identityOf(host.path)
	now := r.next.identity(h)
	if !ok || was == now {
		return
	}
	label, wait := r.e.label(t), "wait until it has ended, or cancel it"
	if t.status == StatusFailed {
		label, wait = label+", which has failed and may be retried", "cancel it, or retry it first"
	}
	switch {
	case was.address != now.address:
		r.refuse("host-moved", scope+".url", "%s is inside %s: give the new host a new name", host.spec.Name, label)
	case was.user != now.user:
		r.refuse("host-moved", scope+".url", "user of %s cannot change while %s: %s", host.spec.Name, r.state(t), wait)
	case was.sudo != now.sudo:
		r.refuse("host-moved", "ssh.sudo", "sudo cannot change while %s at %s: %s", r.state(t), host.spec.Name, wait)
	case was.root != now.root:
		r.refuse("host-moved", scope+".root", "root of %s cannot change while %s: %s", host.spec.Name, r.state(t), wait)
	default:
		r.refuse("service-renamed", r.serviceScope(host, group, scope), "service of %s cannot change from %q to %q while %s: %s",
			host.spec.Name, was.service, now.service, r.state(t), wait)
	}
}

// serviceScope returns the place in the file where the name of a host's service is set.
func (r *refusing) serviceScope(host *hostPlan, group, scope string) string {
	switch {
	case host.spec.Service != nil:
		return scope + ".service.name"
	case r.next.groups[host.group].spec.Service != nil:
		return group + ".service.name"
	case r.next.def.Stages[host.stage].Service != nil:
		return stageScope(int(host.stage)) + ".service.name"
	}
	return "service.name"
}
