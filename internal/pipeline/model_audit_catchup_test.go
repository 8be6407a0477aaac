package pipeline

import "slices"

// catchUp judges a catch-up that a pass has made: of what it completes, and where.
func (u *auditor) catchUp(t, completes *audited, isAutomatic bool) {
	if !isAutomatic { // judgeCatchUp knows the target
		return
	}
	group := groupOf(t.hosts[0])
	_, g, _, _ := u.versions[u.law].d.Find(group)
	if want, hosts := u.joined(group); g == nil || !g.CatchUp || want != completes || !slices.Equal(hosts, t.hosts) ||
		t.revision != completes.revision {
		u.breaks("4.12: a catch-up of #%d on %v, want %v", completes.number, t.hosts, hosts)
	}
}

// completing returns what a catch-up of a target has to be, or why there can be none. lost are hosts that do not have the
// release that the log says.
func (u *auditor) completing(target string, lost []string) (completes *audited, hosts []string, why string) {
	for _, s := range u.versions[u.law].d.Stages {
		for _, g := range s.Groups {
			current := u.current(Path("shop", s.Name, g.Name))
			var some []string
			for _, host := range u.lacking(Path("shop", s.Name, g.Name), current, lost) {
				if isUnder(target, "", stepName{target: host}) {
					some = append(some, host)
				}
			}
			if len(some) == 0 {
				continue
			}
			if completes != nil && completes != current {
				return nil, nil, "the groups have different revisions"
			}
			completes, hosts = current, append(hosts, some...)
		}
	}
	switch {
	case completes == nil:
		return nil, nil, "no host lacks anything"
	case u.rejected[completes.revision]:
		return nil, nil, "the revision is rejected"
	}
	slices.Sort(hosts)
	return completes, hosts, ""
}

// judgeCatchUp judges the answer to a person who asks for a catch-up.
func (u *auditor) judgeCatchUp(target string, lost []string, rows []Entry, err error) {
	completes, hosts, why := u.completing(target, lost)
	if (why == "") != (err == nil) {
		u.breaks("4.12: a catch-up of %s is answered with %v, want %q", target, err, why)
	}
	if err != nil || u.broken != "" {
		return
	}
	about := detail[createdDetail](rows[0])
	if got := slices.Sorted(slices.Values(about.Hosts)); about.Completes != completes.number ||
		rows[0].Revision != completes.revision || !slices.Equal(got, hosts) {
		u.breaks("4.12: a catch-up of %s completes #%d on %v, want #%d on %v", target, about.Completes, got, completes.number, hosts)
	}
	isLost := func(host string) bool { return slices.Contains(lost, host) }
	if slices.ContainsFunc(about.Lost, func(host string) bool { return !isLost(host) || !slices.Contains(hosts, host) }) ||
		slices.ContainsFunc(hosts, func(host string) bool { return isLost(host) && !slices.Contains(about.Lost, host) }) {
		u.breaks("4.12: a catch-up of %s notes that %v lost their release, of %v", target, about.Lost, lost)
	}
}

// current returns the deployment of highest rank that finished a group; nil if none has.
func (u *auditor) current(group string) *audited {
	var current *audited
	n, ok := u.numbers[stepName{group, GroupFinished}]
	for i := range u.deployments {
		if t := &u.deployments[i]; ok && t.facts.has(n) && (current == nil || u.isBelow(current, t.number)) {
			current = t
		}
	}
	return current
}

// lacking lists the hosts of a group without its current revision, or that have lost it, but none that a newer deployment started, that the
// current one or a catch-up still has to do, or that the revision has no artifact for.
func (u *auditor) lacking(group string, current *audited, lost []string) []string {
	v := u.versions[u.law]
	var list []string
	for n, at := range v.at {
		if current == nil || !v.all.has(n) || at.event != HostStarted || at.group != group {
			continue
		}
		host := u.names[n].target
		last := u.deployment(u.started[at.resource])
		switch {
		case last != nil && last.rank.number > current.rank.number:
		case last != nil && last.revision == current.revision && last.facts.has(u.numbers[stepName{host, HostFinished}]) &&
			!slices.Contains(lost, host):
		case at.arch != "" && !slices.Contains(u.artifacts[current.revision], at.arch):
		case u.isOnItsWay(current, at.resource):
		default:
			list = append(list, host)
		}
	}
	slices.Sort(list)
	return list
}

// isOnItsWay: the deployment, or a catch-up, is active and has steps left on a resource.
func (u *auditor) isOnItsWay(current *audited, r Resource) bool {
	for i := range u.deployments {
		t := &u.deployments[i]
		if t.status != StatusActive || t != current && t.kind != KindCatchUp {
			continue
		}
		v := u.of(t)
		left := v.all.without(u.look(t).resolved).without(u.look(t).elided)
		for n, at := range v.at {
			if left.has(n) && at.host && at.resource == r {
				return true
			}
		}
	}
	return false
}

// joined lists the hosts that joined a group after its current deployment had finished it, and that neither got a catch-up
// nor were skipped in that deployment.
func (u *auditor) joined(group string) (completes *audited, hosts []string) {
	current := u.current(group)
	if current == nil || u.rejected[current.revision] {
		return nil, nil
	}
	for _, host := range u.lacking(group, current, nil) {
		had := slices.ContainsFunc(u.deployments, func(t audited) bool { // what a rollback has undone was there as well
			return t.rank.number == current.rank.number &&
				(t.kind == KindCatchUp && slices.Contains(t.hosts, host) || slices.Contains(t.ranIn, host))
		})
		skipped := slices.ContainsFunc(current.exclusions,
			func(x exclusion) bool { return isUnder(x.target, x.event, stepName{host, HostStarted}) })
		if !had && !skipped && !slices.Contains(current.rosters[group], host) {
			hosts = append(hosts, host)
		}
	}
	return current, hosts
}
