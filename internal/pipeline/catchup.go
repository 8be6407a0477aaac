package pipeline

import (
	"encoding/json"
	"slices"

	"github.com/waybill-dev/waybill/internal/fault"
)

// A catch-up is a deployment that brings the current revision of groups to hosts that lack it: they
// joined after the group had finished, their failure was tolerated, or they have lost it since. It
// has the steps of these hosts and nothing else, ranks just above the deployment that it completes,
// and waits for batches, windows and approvals like any other.

// KindCatchUp is the kind of a catch-up in the row that creates it.
const KindCatchUp = "catch-up"

// CatchUp is a person's wish to bring a target to its current revision.
type CatchUp struct {
	Target     string // full path; "": the pipeline
	By, Reason string

	// Lost are hosts, by their full paths, that do not have the release that the log says. The log
	// cannot know these, so the caller has asked the hosts. Those below Target are written into the row.
	Lost []string
}

// CatchUp returns the row that creates a catch-up. It changes nothing.
//
// Errors have the code fault.NotFound for an unknown target, and fault.Refused if no host of it
// lacks its current revision, if groups have different ones, or if the revision is rejected.
func (e *Engine) CatchUp(c CatchUp) ([]Entry, error) {
	if c.Target == "" {
		c.Target = e.pipeline
	}
	plan, err := e.planOf(c.Target)
	if err != nil {
		return nil, err
	}
	var current *deployment
	var hosts []string
	for g := range plan.groups {
		newest := e.finisherOf(plan.groups[g].path, GroupFinished)
		if newest == nil {
			continue
		}
		lacking := e.laggards(plan, int32(g), newest, c)
		switch {
		case len(lacking) == 0:
			continue
		case current != nil && newest != current:
			return nil, fault.New(fault.Refused, "the groups of %s have different revisions: %s and %s", plan.short(c.Target),
				current.label, newest.label).
				WithHint("name a group")
		}
		current, hosts = newest, append(hosts, lacking...)
	}
	switch {
	case current == nil:
		return nil, fault.New(fault.Refused, "no host of %s lacks the current revision of its group", plan.short(c.Target))
	case current.rejected != nil:
		return nil, e.refuseRejected(current.revision, current.label)
	}
	row, err := e.catchUpRow(c, current, hosts)
	return []Entry{row}, err
}

// catchUpRow returns the row that creates a catch-up.
func (e *Engine) catchUpRow(c CatchUp, current *deployment, hosts []string) (Entry, error) {
	var lost []string
	for _, host := range hosts {
		if slices.Contains(c.Lost, host) {
			lost = append(lost, host)
		}
	}
	text, err := json.Marshal(createdDetail{Kind: KindCatchUp, Label: current.label, By: c.By, Reason: c.Reason,
		RegisteredBy: current.registrant,
		Completes:    current.number, Hosts: hosts, Lost: lost})
	return Entry{Pipeline: e.pipeline, Seq: e.seq + 1, Deployment: e.order[len(e.order)-1].number + 1, Target: e.pipeline,
		Event: DeploymentCreated,
		Class: Note, Occurrence: 1, Revision: current.revision, Version: e.version, Detail: text}, err
}

// catchUp makes a catch-up of the first group with `joining: catch-up` that has hosts which joined
// after it had finished, and reports whether it did. Each host gets one: if it fails, a person
// decides.
func (p *pass) catchUp() (bool, error) {
	plan := p.e.plans[p.e.version]
	if plan == nil {
		return false, nil
	}
	for g := range plan.groups {
		group := &plan.groups[g]
		if !group.spec.CatchUp {
			continue
		}
		current := p.e.finisherOf(group.path, GroupFinished)
		if current == nil || current.rejected != nil {
			continue
		}
		joined := slices.DeleteFunc(p.e.laggards(plan, int32(g), current, CatchUp{Target: group.path}),
			func(host string) bool { return p.e.isServed(current, host) })
		if len(joined) == 0 {
			continue
		}
		row, err := p.e.catchUpRow(CatchUp{By: automatic, Reason: "joined " + plan.short(group.path)}, current, joined)
		if err != nil {
			return false, err
		}
		return true, p.record(row)
	}
	return false, nil
}

// isServed reports whether the current deployment of a group has started a host or left it out, for
// example by a skip, or a catch-up at its rank has covered it.
func (e *Engine) isServed(current *deployment, host string) bool {
	return slices.ContainsFunc(e.namesOf(host), func(name string) bool {
		start := stepName{name, HostStarted}
		return slices.ContainsFunc(current.exclusions, func(x exclusion) bool { return covers(x.target, x.event, start) }) ||
			slices.ContainsFunc(e.order, func(t *deployment) bool {
				return t.rank.number == current.rank.number && (t.hasFact(name, HostStarted) || t.completes != nil && t.covered[name])
			})
	})
}

// planOf returns the graph of the version in force, which must have the target.
func (e *Engine) planOf(target string) (*Graph, error) {
	plan := e.plans[e.version]
	if plan == nil {
		return nil, fault.New(fault.NotFound, "pipeline %s has no definition", e.pipeline)
	}
	if _, ok := plan.targets[target]; !ok {
		return nil, fault.New(fault.NotFound, "definition %d of %s has no %s", e.version, e.pipeline, plan.short(target))
	}
	return plan, nil
}

// Lacking returns the hosts that lack the current revision of their group. The value is whether a
// catch-up of the host alone would bring it: it would not if the revision is rejected. lost is as in
// CatchUp.
func (e *Engine) Lacking(lost []string) map[string]bool {
	plan, hosts := e.plans[e.version], map[string]bool{}
	if plan == nil {
		return hosts
	}
	for g := range plan.groups {
		current := e.finisherOf(plan.groups[g].path, GroupFinished)
		if current == nil {
			continue
		}
		for _, host := range e.laggards(plan, int32(g), current, CatchUp{Target: e.pipeline, Lost: lost}) {
			hosts[host] = current.rejected == nil
		}
	}
	return hosts
}

// laggards lists those hosts of a group under the target of a catch-up that lack what the current
// deployment of the group brought, or have lost it. A host that a newer deployment has started, or
// that the current one or an active catch-up will still reach, is left out, and so is one without an
// artifact of the revision.
func (e *Engine) laggards(plan *Graph, group int32, current *deployment, c CatchUp) []string {
	var list []string
	for _, h := range plan.groups[group].hosts {
		host := &plan.hosts[h]
		last, isLost := e.startedOn(host.resource), slices.Contains(c.Lost, host.path)
		switch {
		case !covers(c.Target, "", stepName{target: host.path}):
		case last != nil && last.rank.number > current.rank.number:
		case !isLost && last != nil && last.revision == current.revision && last.hasFactAs(plan.def.NamesOf(host.path), HostFinished):
		case host.arch != "" && e.artifacts[current.revision][host.arch] == nil:
		case e.isOnItsWay(current, e.ids(plan).resources[h]):
		default:
			list = append(list, host.path)
		}
	}
	return list
}

// isOnItsWay reports whether the current deployment of a group, or an active catch-up, has steps
// left on a resource.
func (e *Engine) isOnItsWay(current *deployment, resource int32) bool {
	for _, t := range e.active {
		if (t == current || t.completes != nil) && t.hasStepsOn(resource) {
			return true
		}
	}
	return false
}
