package pipeline

import "slices"

// catchingUp returns what a catch-up of a target would be: the deployment that it completes, and its hosts; false if it is
// refused. lost are hosts that do not have the release that the log says.
func (o *oracle) catchingUp(target string, lost []string) (completes *oracleDeployment, hosts []string, ok bool) {
	d := o.graphs[o.version].d
	for i := range d.Stages {
		for g := range d.Stages[i].Groups {
			group := &d.Stages[i].Groups[g]
			path := Path(o.pipeline, d.Stages[i].Name, group.Name)
			var current *oracleDeployment // highest rank that finished the group
			for _, t := range o.deployments {
				if t.facts[stepName{path, GroupFinished}] && (current == nil || current.isBelow(t)) {
					current = t
				}
			}
			if current == nil {
				continue
			}
			lacking := false
			for h := range group.Hosts {
				host := Path(path, group.Hosts[h].Name)
				if isUnder(target, "", stepName{target: host}) && o.lacks(current, host,
					d.ResourceOf(&d.Stages[i], group, &group.Hosts[h]), d.ArtifactFor(d.Stages[i].Name, &group.Hosts[h]), slices.Contains(lost, host)) {
					hosts, lacking = append(hosts, host), true
				}
			}
			if lacking && completes != nil && completes != current {
				return nil, nil, false
			}
			if lacking {
				completes = current
			}
		}
	}
	return completes, hosts, completes != nil && !o.rejected[completes.revision]
}

// lacks: nothing newer was on the host, the current revision of its group has not finished there or was lost, there is an
// artifact for it, and neither the current deployment nor a catch-up will still do it.
func (o *oracle) lacks(current *oracleDeployment, host string, r Resource, arch string, lost bool) bool {
	last := o.deployment(o.started[r])
	if last != nil && (last.base > current.base || last.revision == current.revision && last.facts[stepName{host, HostFinished}] && !lost) {
		return false
	}
	if arch != "" && !o.artifacts[current.revision][arch] {
		return false
	}
	return !slices.ContainsFunc(o.active(), func(t *oracleDeployment) bool { return (t == current || t.catchUp != nil) && o.hasStepsOn(t, r) })
}

// joined returns the hosts of the first group with joining: catch-up that lack its current revision, that neither the current
// deployment nor anything at its rank has started, that were not left out, and that no catch-up was made for; and the deployment.
func (o *oracle) joined() (completes *oracleDeployment, hosts []string) {
	d := o.graphs[o.version].d
	for _, stage := range d.Stages {
		for _, group := range stage.Groups {
			if !group.CatchUp {
				continue
			}
			path := Path(o.pipeline, stage.Name, group.Name)
			var current *oracleDeployment
			for _, t := range o.deployments {
				if t.facts[stepName{path, GroupFinished}] && (current == nil || current.isBelow(t)) {
					current = t
				}
			}
			if current == nil || o.rejected[current.revision] {
				continue
			}
			for h := range group.Hosts {
				host := Path(path, group.Hosts[h].Name)
				served := slices.ContainsFunc(o.deployments, func(t *oracleDeployment) bool {
					return t.base == current.base && (t.facts[stepName{host, HostStarted}] || t.catchUp != nil && slices.Contains(t.catchUp.Hosts, host))
				})
				served = served || slices.ContainsFunc(current.exclusions,
					func(x exclusion) bool { return isUnder(x.target, x.event, stepName{host, HostStarted}) })
				if !served && o.lacks(current, host, d.ResourceOf(&stage, &group, &group.Hosts[h]), d.ArtifactFor(stage.Name, &group.Hosts[h]), false) {
					hosts = append(hosts, host)
				}
			}
			if len(hosts) > 0 {
				return current, hosts
			}
		}
	}
	return nil, nil
}
