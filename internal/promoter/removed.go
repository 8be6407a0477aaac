package promoter

import (
	"maps"
	"slices"

	"github.com/waybill-dev/waybill/internal/promotion"
)

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
		if p := l.state.Proposals[name]; p.State == promotion.Open && p.Host != nil && isRemoved(name) {
			steps = l.appendClose(steps, name)
		}
	}
	return steps
}

// moved returns the steps about environments that are promoted to by other branches, by another repository, or in
// another way than when their open proposals were made. These are closed, and live attempts to merge them canceled.
func (l *look) moved() (steps []promotion.Step) {
	for _, env := range l.pipeline.Environments {
		if !l.isMoved(env.Name) {
			continue
		}
		key := promotion.AttemptKey{Run: l.state.Proposals[env.Name].Run, Env: env.Name, Op: promotion.OpMerge}
		if l.state.Attempts[key].Status == promotion.AttemptLive {
			steps = append(steps, promotion.Step{Op: key.Op, Run: key.Run, Env: key.Env, Cancel: true})
		}
		steps = l.appendClose(steps, env.Name)
	}
	return steps
}

// isMoved reports whether the open proposal of an environment is not where the definition has proposals made.
func (l *look) isMoved(name promotion.EnvName) bool {
	p, env := l.state.Proposals[name], l.environment(name)
	return p.State == promotion.Open && p.Host != nil && env.Name != "" && (env.Host == nil || !env.Host.HasSamePlace(*p.Host))
}

// closing returns the attempt at closing the open proposal of an environment; false if none was made since it was opened.
func (l *look) closing(name promotion.EnvName) (promotion.Attempt, bool) {
	p := l.state.Proposals[name]
	attempt, made := l.state.Attempts[promotion.AttemptKey{Run: p.Run, Env: name, Op: promotion.OpClose}]
	return attempt, made && (attempt.Status != promotion.AttemptDone || !attempt.At.Before(p.At))
}

// appendClose appends the step that closes an open proposal, unless it was taken.
func (l *look) appendClose(steps []promotion.Step, name promotion.EnvName) []promotion.Step {
	p := l.state.Proposals[name]
	_, known := l.run(p.Run)
	if _, made := l.closing(name); made || !known {
		return steps
	}
	return append(steps, promotion.Step{Op: promotion.OpClose, Run: p.Run, Env: name, Revision: p.Revision, Number: p.Number})
}

// leaveMoved leaves proposals to people that are elsewhere and could not be closed.
func (l *look) leaveMoved() {
	l.input.Proposals = maps.Clone(l.input.Proposals)
	maps.DeleteFunc(l.input.Proposals, func(name promotion.EnvName, p promotion.Proposal) bool {
		attempt, made := l.closing(name)
		_, known := l.run(p.Run)
		return l.isMoved(name) && (!known || made && attempt.Status != promotion.AttemptLive)
	})
}

// awaitMoved keeps back the steps of the plan about proposals, until those that are elsewhere have been closed.
func (l *look) awaitMoved() {
	for _, verdicts := range [][]promotion.Verdict{l.plan.Verdicts, l.plan.Also} {
		for i, v := range verdicts {
			if _, open := l.input.Proposals[v.Env]; open && l.isMoved(v.Env) {
				verdicts[i].Do = slices.DeleteFunc(slices.Clone(v.Do), func(s promotion.Step) bool {
					return !s.Cancel && (s.Op == promotion.OpPropose || s.Op == promotion.OpMerge || s.Op == promotion.OpClose)
				})
			}
		}
	}
}
