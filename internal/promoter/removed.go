package promoter

import (
	"maps"
	"slices"

	"github.com/waybill-dev/waybill/internal/promoter/resource"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// remember keeps the repositories of the environments, because one may be removed from the definition later.
func (l *look) remember() {
	if l.hosts == nil {
		l.hosts = map[promotion.EnvName]promotion.Host{}
	}
	maps.DeleteFunc(l.hosts, func(name promotion.EnvName, _ promotion.Host) bool {
		return l.state.Proposals[name].State != promotion.Open
	})
	for _, env := range l.pipeline.Environments {
		if env.Host != nil {
			l.hosts[env.Name] = *env.Host
		}
	}
}

// formerHost returns the repository of an environment that the definition has no more. After a restart it is taken from
// another environment: a proposal whose head is another branch is not closed then.
func (l *look) formerHost(name promotion.EnvName) *promotion.Host {
	if host, known := l.hosts[name]; known {
		return &host
	}
	for _, env := range l.pipeline.Environments {
		if env.Host != nil {
			host := *env.Host
			host.Branch = resource.HeadBranch(l.pipeline.Namespace, l.pipeline.Name, name)
			return &host
		}
	}
	return nil
}

// removed returns the steps about environments that the definition has no more: their live attempts are canceled, and open
// proposals are closed once, so that none stays for a person to merge. A live attempt at a proposal ends by itself first: canceled
// after the host has the proposal, it would leave one that the log does not know.
func (l *look) removed() (steps []promotion.Step) {
	isRemoved := func(name promotion.EnvName) bool { return l.environment(name).Name == "" }
	for key, attempt := range l.state.Attempts {
		isCanceled := key.Op != promotion.OpClose && key.Op != promotion.OpPropose
		if attempt.Status == promotion.AttemptLive && isCanceled && isRemoved(key.Env) {
			steps = append(steps, promotion.Step{Op: key.Op, Run: key.Run, Env: key.Env, Gate: key.Gate, Cancel: true})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.state.Proposals)) {
		p := l.state.Proposals[name]
		if p.State != promotion.Open || !isRemoved(name) || l.formerHost(name) == nil {
			continue
		}
		step := promotion.Step{Op: promotion.OpClose, Run: p.Run, Env: name, Revision: p.Revision, Number: p.Number}
		_, known := l.run(p.Run)
		if _, made := l.state.Attempts[step.Key()]; known && !made {
			steps = append(steps, step)
		}
	}
	return steps
}
