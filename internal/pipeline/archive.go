package pipeline

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// Deployments that ended long ago are archived: their rows leave the log, and engines forget them. The row
// deployments-archived says which, and everything that would be lost with them, so that an engine that has folded the
// whole log and one that folds the rest of it are in the same state behind that row (I8).
//
// A deployment stays while something may request it:
//
//   - it is active, or failed and may be retried, or one that is was created before it ended: the two may
//     have met in a batch, at an edit, or on a host;
//   - it is what a target of the definition in force has now, or what a host was started with last;
//   - it finished a stage with one of the newest revisions there, or before the one that a host has, which a rollback
//     may bring back;
//   - it is a rollback that holds another that stays, or an edit left hosts in their waves for it;
//   - it undoes, completes or has overtaken another that stays, or has the same revision: which architectures
//     a revision is without depends on its first deployment;
//   - it is the newest, whose number the next one counts from, or too large for one transaction.

// ArchivedDetail is the Detail of deployments-archived.
type ArchivedDetail struct {
	Deployments []int64 `json:"deployments"`         // their numbers
	Revisions   []int64 `json:"revisions,omitempty"` // those of which no deployment is left
	Newest      int64   `json:"newest,omitempty"`    // the newest revision that an entry has named
	// Knew has, by their numbers, the newest revision when each rollback that is left was created.
	Knew   map[int64]int64 `json:"knew,omitempty"`
	Fences []ArchivedFence `json:"fences,omitempty"`
}

// String returns the first numbers, and how many there are besides; "" for none.
func (d ArchivedDetail) String() string {
	const most = 10
	var text strings.Builder
	for i, number := range d.Deployments {
		if i == most {
			fmt.Fprintf(&text, " and %d more", len(d.Deployments)-most)
			break
		}
		if i > 0 {
			text.WriteByte(' ')
		}
		fmt.Fprintf(&text, "#%d", number)
	}
	return text.String()
}

// ArchivedFence is the fence of a resource, which the rows that are left do not say: hosts refuse a lower one. A
// later row says it again only if it has changed.
type ArchivedFence struct {
	Address string `json:"address"`
	Service string `json:"service"`
	Fence   int64  `json:"fence"`
	Starter int64  `json:"starter,omitempty"` // the deployment that started it last; 0: an archived one
}

// AllowGaps reports that rows up to a position may be missing, since their deployments were archived. It is for an
// engine that has folded nothing; the position is that of the last row deployments-archived.
func (e *Engine) AllowGaps(upTo int64) { e.archived = upTo }

// Archive returns the change that archives deployments that ended before a time and that nothing requests any more,
// and their numbers, oldest first: about limit, since deployments that belong together go together. Those with more
// than maxFacts facts stay. Without any it returns no row. It changes nothing; the caller appends the row.
func (e *Engine) Archive(before time.Time, limit, maxFacts int) (row Entry, numbers []int64, err error) {
	chosen := map[*deployment]bool{}
	for _, together := range e.archivable(before, maxFacts) {
		if len(chosen) >= limit {
			break
		}
		for _, t := range together {
			chosen[t] = true
		}
	}
	if len(chosen) == 0 {
		return Entry{}, nil, nil
	}
	about := e.archivedDetail(chosen)
	row, err = e.change(DeploymentsArchived, about)
	return row, about.Deployments, err
}

// archivedDetail returns what the row reports that archives deployments.
func (e *Engine) archivedDetail(gone map[*deployment]bool) ArchivedDetail {
	d := ArchivedDetail{Newest: e.newest}
	left := map[int64]bool{} // revisions
	for _, t := range e.order {
		switch {
		case gone[t]:
			d.Deployments = append(d.Deployments, t.number)
		default:
			left[t.revision] = true
			if t.undoes != nil {
				if d.Knew == nil {
					d.Knew = map[int64]int64{}
				}
				d.Knew[t.number] = t.knew
			}
		}
	}
	for t := range gone {
		if !left[t.revision] && !slices.Contains(d.Revisions, t.revision) {
			d.Revisions = append(d.Revisions, t.revision)
		}
	}
	slices.Sort(d.Revisions)
	for r, n := range e.numbers.resources {
		switch s := &e.resources[n]; {
		case gone[s.started]:
			d.Fences = append(d.Fences, ArchivedFence{Address: r.Address, Service: r.Service, Fence: s.fence})
		case s.started != nil && s.fence != s.started.number && s.fence != s.archived:
			d.Fences = append(d.Fences, ArchivedFence{r.Address, r.Service, s.fence, s.started.number})
		}
	}
	slices.SortFunc(d.Fences, func(a, b ArchivedFence) int {
		return cmp.Or(strings.Compare(a.Address, b.Address), strings.Compare(a.Service, b.Service))
	})
	return d
}

// archivable returns the deployments that may be archived, those together that go together, oldest first.
func (e *Engine) archivable(before time.Time, maxFacts int) [][]*deployment {
	if len(e.order) == 0 {
		return nil
	}
	ties := e.tie()
	kept := map[*deployment]bool{}
	for t := range e.needed(before, maxFacts) {
		ties.follow(t, kept)
	}
	ties.join()
	seen := maps.Clone(kept)
	var list [][]*deployment
	for _, t := range e.order {
		if together := ties.follow(t, seen); len(together) > 0 {
			list = append(list, together)
		}
	}
	return list
}

// ties says which deployments request which.
type ties struct {
	mates map[*deployment][]*deployment // stay and go together
	needs map[*deployment][]*deployment // stay while it stays
}

// join makes mates of all that are tied, for what may go: nothing goes before what needs it.
func (l ties) join() {
	for t, needed := range l.needs {
		for _, other := range needed {
			l.mates[other] = append(l.mates[other], t)
		}
	}
}

// tie ties the deployments of a revision, a rollback to what it undoes, and a catch-up to what it completes. A
// failed deployment needs the one that has overtaken it, without which it could be retried. One that has not
// ended for good needs the rollbacks that hold it.
func (e *Engine) tie() ties {
	l := ties{map[*deployment][]*deployment{}, map[*deployment][]*deployment{}}
	rollbacks := map[string]*deployment{} // by label
	for _, t := range e.rollbacks {
		rollbacks[e.label(t)] = t
	}
	first := map[int64]*deployment{} // first deployment of each revision
	for _, t := range e.order {
		if first[t.revision] == nil {
			first[t.revision] = t
		}
		for _, other := range []*deployment{first[t.revision], t.undoes, t.completes} {
			if other != nil && other != t {
				l.mates[t], l.mates[other] = append(l.mates[t], other), append(l.mates[other], t)
			}
		}
		if newer := t.closedBy; newer != nil {
			l.needs[t] = append(l.needs[t], newer)
		}
		if t.status != StatusActive && t.status != StatusFailed {
			continue
		}
		if newer := e.outranks(t); newer != nil {
			l.needs[t] = append(l.needs[t], newer)
		}
		for _, h := range t.held {
			if by := rollbacks[h.by]; by != nil {
				l.needs[t] = append(l.needs[t], by)
			}
		}
	}
	return l
}

// follow adds a deployment, and those that are tied to it, to those that were seen, and returns the new ones.
func (l ties) follow(t *deployment, seen map[*deployment]bool) (found []*deployment) {
	for open := []*deployment{t}; len(open) > 0; {
		last := len(open) - 1
		t, open = open[last], open[:last]
		if seen[t] {
			continue
		}
		seen[t] = true
		found = append(found, t)
		open = append(append(open, l.mates[t]...), l.needs[t]...)
	}
	return found
}

// mayContinue reports whether a deployment is active, or failed and neither overtaken nor without a batch.
func (e *Engine) mayContinue(t *deployment) bool {
	return t.status == StatusActive || len(t.live) > 0 || t.status == StatusFailed && (e.outranks(t) == nil || e.holdsAny(t))
}

// holdsAny reports whether a deployment holds a batch.
func (e *Engine) holdsAny(t *deployment) bool {
	return len(t.holds) > 0 || slices.ContainsFunc(t.ids.stages, func(s int32) bool { return e.holding[s][t] > 0 })
}

// needed returns the deployments that are asked for by themselves, that ended since a time, or that have more
// than maxFacts facts.
func (e *Engine) needed(before time.Time, maxFacts int) map[*deployment]bool {
	needed := map[*deployment]bool{e.order[len(e.order)-1]: true}
	for _, t := range e.order {
		if e.mayContinue(t) {
			needed[t] = true
			if t.created.Before(before) {
				before = t.created
			}
		}
	}
	plan := e.plans[e.version]
	isDealt := slices.ContainsFunc(slices.Collect(maps.Values(e.plans)), func(p *Graph) bool { return p.isDealt })
	for _, t := range e.order {
		if !t.ended.Before(before) || t.done > maxFacts || t.wasDealt && isDealt {
			needed[t] = true
		}
	}
	for _, n := range slices.Concat(e.ids(plan).resources, e.ids(plan).environments) {
		if n < 0 {
			continue
		}
		if started := e.resources[n].started; started != nil {
			needed[started] = true
		}
	}
	e.needCurrent(needed, plan)
	e.needGood(needed, plan)
	return needed
}

// needCurrent adds the deployment of highest rank that finished each target, and that deployed to each host. Most targets are found
// with the first deployments that are asked.
func (e *Engine) needCurrent(needed map[*deployment]bool, plan *Graph) {
	var open []stepName
	for target, at := range plan.targets {
		for _, name := range plan.def.NamesOf(target) {
			switch {
			case at.host >= 0:
				open = append(open, stepName{name, HostFinished}, stepName{name, HostDeployed})
			case at.wave >= 0:
			case at.group >= 0:
				open = append(open, stepName{name, GroupFinished})
			case at.stage >= 0:
				open = append(open, stepName{name, StageFinished})
			default:
				open = append(open, stepName{name, PipelineFinished})
			}
		}
	}
	byRank := slices.Clone(e.order)
	slices.SortFunc(byRank, func(a, b *deployment) int { return compareRanks(b, a) })
	for _, t := range byRank {
		open = slices.DeleteFunc(open, func(name stepName) bool {
			has := t.hasFact(name.target, name.event)
			if has {
				needed[t] = true
			}
			return has
		})
	}
}

// needGood adds the deployments that a rollback of a stage, and the rollbacks after it, would bring back: those that
// finished the stage with one of the newest revisions, as many as hosts keep releases, and likewise with the one
// that a host has and those before it.
func (e *Engine) needGood(needed map[*deployment]bool, plan *Graph) {
	byRevision := slices.Clone(e.order)
	slices.SortStableFunc(byRevision, func(a, b *deployment) int { return cmp.Compare(b.revision, a.revision) })
	for s := range plan.stages {
		keep := max(3, plan.def.Keep.Releases)
		below := map[int64]int{math.MaxInt64: keep} // how many revisions below one
		for _, g := range plan.stages[s].groups {
			for _, h := range plan.groups[g].hosts {
				if started := e.startedOn(plan.hosts[h].resource); started != nil {
					below[started.revision] = keep - 1
				}
			}
		}
		if plan.def.Stages[s].Kind == EnvironmentStage {
			if started := e.starterOf(plan, part{int32(s), -1}); started != nil {
				below[started.revision] = keep - 1
			}
		}
		names := plan.def.NamesOf(plan.stages[s].path)
		good := slices.DeleteFunc(slices.Clone(byRevision),
			func(t *deployment) bool { return t.rejected != nil || !t.hasFactAs(names, StageFinished) })
		for revision, many := range below {
			needNewest(needed, good, revision, many)
		}
	}
}

// needNewest adds the deployments of the newest revisions below one; good has them by revision, newest first.
func needNewest(needed map[*deployment]bool, good []*deployment, below int64, revisions int) {
	last := below
	for _, t := range good {
		switch {
		case t.revision >= below:
			continue
		case t.revision != last:
			revisions--
			last = t.revision
		}
		if revisions < 0 {
			return
		}
		needed[t] = true
	}
}

// forget folds deployments-archived. An engine that never had the deployments gets from it what their
// rows would have left behind.
func (e *Engine) forget(d ArchivedDetail) {
	e.forgets = true
	gone := map[*deployment]bool{}
	for _, number := range d.Deployments {
		if t := e.deployments[number]; t != nil {
			gone[t] = true
			delete(e.deployments, number)
		}
	}
	isGone := func(t *deployment) bool { return gone[t] }
	e.order, e.rollbacks, e.touched = slices.DeleteFunc(e.order, isGone), slices.DeleteFunc(e.rollbacks,
		isGone), slices.DeleteFunc(e.touched, isGone)
	if gone[e.latest] {
		e.latest = nil
	}
	e.timers = slices.DeleteFunc(e.timers, func(each timer) bool { return gone[each.t] })
	slices.SortFunc(e.timers, func(a, b timer) int { return a.at.Compare(b.at) }) // sorted, they are a heap again
	e.newest = max(e.newest, d.Newest)
	for _, revision := range d.Revisions {
		e.born[revision] = e.unknown
	}
	for number, knew := range d.Knew {
		if t := e.deployments[number]; t != nil {
			t.knew = knew
		}
	}
	for n := range e.resources { // rows of archived deployments would say it
		e.resources[n].former = 0
	}
	for _, f := range d.Fences {
		if n, ok := e.numbers.resources[Resource{Address: f.Address, Service: f.Service}]; ok {
			s := &e.resources[n]
			s.fence, s.archived, s.started = f.Fence, f.Fence, e.deployments[f.Starter]
		}
	}
	e.forgetVersions()
}
