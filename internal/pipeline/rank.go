package pipeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// rank decides every precedence between deployments. It is the deployment's number, or for a
// rollback or a catch-up the place just above the deployment that it undoes or completes.
type rank struct {
	number int64
	next   int64 // 0, or for rollbacks and catch-ups 1, 2, 3 above the same deployment
}

// compareRanks orders deployments by rank.
func compareRanks(a, b *deployment) int {
	return cmp.Or(cmp.Compare(a.rank.number, b.rank.number), cmp.Compare(a.rank.next, b.rank.next))
}

// isOlder reports whether t has a lower rank than other.
func (t *deployment) isOlder(other *deployment) bool { return compareRanks(t, other) < 0 }

// isBehind reports whether there is another deployment and it has a higher rank than t.
func (t *deployment) isBehind(other *deployment) bool { return other != nil && t.isOlder(other) }

// Outranks reports whether a deployment has a higher rank than another; false if one of the two
// does not exist. A later deployment outranks an earlier one, unless it is a rollback or a
// catch-up, which is just above the deployment that it undoes or completes.
func (e *Engine) Outranks(deployment, other int64) bool {
	t, o := e.deployments[deployment], e.deployments[other]
	return t != nil && o != nil && o.isOlder(t)
}

// CurrentAt returns the number of the deployment of highest rank that finished the pipeline, a
// stage, a group or a host, by full path; 0 if none has.
func (e *Engine) CurrentAt(target string) int64 {
	event := []string{PipelineFinished, StageFinished, GroupFinished, HostFinished}[min(strings.Count(target, "/"), 3)]
	if t := e.finisherOf(target, event); t != nil {
		return t.number
	}
	return 0
}

// finisherOf returns the deployment of highest rank that has a fact of a target; nil if none has.
func (e *Engine) finisherOf(target, event string) *deployment {
	var current *deployment
	names := e.namesOf(target)
	for _, t := range e.order {
		if t.hasFactAs(names, event) && (current == nil || current.isOlder(t)) {
			current = t
		}
	}
	return current
}

// rankOf gives a new deployment its rank, and for a rollback, a catch-up or a part reads its row.
func (e *Engine) rankOf(t *deployment, about createdDetail) error {
	t.rank = rank{number: t.number}
	if about.Kind == KindPart {
		t.part = about.Scope
	}
	if about.Kind != KindRollback && about.Kind != KindCatchUp {
		return nil
	}
	below := e.deployments[cmp.Or(about.Undoes, about.Completes)]
	if below == nil {
		return fmt.Errorf("fold pipeline %s: entry %d creates a %s of a deployment that was never created", e.pipeline, e.seq, about.Kind)
	}
	t.rank.number = below.rank.number
	for _, other := range e.order {
		if other.rank.number == t.rank.number {
			t.rank.next = max(t.rank.next, other.rank.next+1)
		}
	}
	if about.Kind == KindCatchUp {
		t.completes, t.covered = below, map[string]bool{e.pipeline: true}
		for _, host := range about.Hosts {
			t.covered[host] = true
		}
		return nil
	}
	t.undoes = below
	t.scope, t.knew, t.covered = about.Scope, e.newest, coveredTargets(e.pipeline, about.Scope, about.Hosts)
	return nil
}

// start records that a deployment has started a resource.
func (e *Engine) start(t *deployment, r *resourceState) {
	if r.started != t {
		r.started, r.former, r.fence = t, r.fence, max(r.fence+1, t.number)
	}
}

// listActive adds a deployment to the list of active ones, which is in the order of a pass, or
// removes it, by its status.
func (e *Engine) listActive(t *deployment) {
	i, listed := slices.BinarySearchFunc(e.active, t, comparePass)
	switch is := t.status == StatusActive; {
	case is && !listed:
		e.active = slices.Insert(e.active, i, t)
	case !is && listed:
		e.active = slices.Delete(e.active, i, i+1)
	}
}
