package pipeline

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Edit is the effect of a new version: rows to append with it, or refusals. `waybill plan` shows one without applying
// it.
type Edit struct {
	Entries []Entry        // pipeline-defined, step-introduced, host-joined, step-excluded, …
	Refused fault.Problems // why the edit is refused; if set, nothing may be stored
	Words   []string       // the difference in words, such as "+ host prod/east/ivy"
	Effects []Effect       // per deployment that is active or may come back
}

// Effect is the effect of an edit on one deployment inside. The steps listed are those that take work or an artifact.
type Effect struct {
	Deployment int64     `json:"deployment"`
	Failed     bool      `json:"failed,omitempty"` // it has failed, and a retry would bring it back
	Added      []StepKey `json:"added,omitempty"`
	Elided     []StepKey `json:"elided,omitempty"`
	Excluded   []StepKey `json:"excluded,omitempty"`
	Removed    []StepKey `json:"removed,omitempty"`
	Drained    []StepKey `json:"drained,omitempty"`  // live work that ends without effect
	Drifting   []string  `json:"drifting,omitempty"` // hosts, such as prod/east/ivy, that the deployment no longer reaches
	Words      []string  `json:"words,omitempty"`
}

// Loses reports whether the edit skips or loses work in the deployment, so that ship asks first.
func (f Effect) Loses() bool { return len(f.Elided)+len(f.Excluded)+len(f.Drained) > 0 }

// Touches reports whether the edit changes anything about the deployment.
func (f Effect) Touches() bool {
	return len(f.Added)+len(f.Elided)+len(f.Excluded)+len(f.Removed)+len(f.Drained)+len(f.Drifting)+len(f.Words) > 0
}

// Edit returns what applying next as the given version would do; newest is the newest registered
// rev_seq. It changes nothing. The rows that it returns must be appended together with the version,
// so that every engine that folds them elides and excludes the same steps.
//
// Their positions follow Seq, so the log must not have grown in between. The row pipeline-defined
// comes first: when the exclusions are folded, the deployments are on the new graph already.
func (e *Engine) Edit(version int, next *Graph, newest int64, now time.Time) Edit {
	next = e.deal(next)
	e.walks = map[*deployment]carried{}
	defer func() { e.walks = nil }()
	w := &editing{e: e, version: version, next: next, now: now, notes: map[noteKey]int{}}
	w.old = e.plans[e.version]
	w.row(nil, e.pipeline, PipelineDefined, nil)
	if w.old == nil {
		return w.edit
	}
	w.edit.Words = difference(w.old.def, next.def)
	w.edit.Refused = e.refusals(next)
	news := introductions(w.old, next)
	for _, i := range news {
		w.row(nil, i.stage, StepIntroduced, IntroducedDetail{i.event, newest, i.strict})
	}
	w.moves()
	for _, t := range e.inside() {
		if t.plan.def.Pin {
			continue
		}
		late := e.lateExclusions(t, next, news, newest)
		// Hosts of a late architecture follow from its exclusion when it is folded; they need no
		// rows.
		without := lacking(next, newlyLacking(late, news))
		taken := e.takenHosts(t, w.old, next, slices.Concat(late, without))
		for _, x := range slices.Concat(late, taken) {
			w.row(t, x.target, StepExcluded, StepDetail{Event: x.event, Reason: x.reason})
		}
		w.edit.Effects = append(w.edit.Effects, e.effect(t, next, slices.Concat(late, taken, without)))
	}
	w.hands()
	return w.edit
}

// editing collects the rows of an edit.
type editing struct {
	e         *Engine
	old, next *Graph // old is nil for the first version
	version   int
	now       time.Time
	notes     map[noteKey]int // rows of this edit, which the engine has not counted yet
	edit      Edit
}

// noteKey is a noteName of one deployment; 0 is the pipeline itself.
type noteKey struct {
	deployment int64
	noteName
}

// row appends a change of the pipeline, or a note of a deployment.
func (w *editing) row(t *deployment, target, event string, about any) {
	row := Entry{Pipeline: w.e.pipeline, Seq: w.e.seq + 1 + int64(len(w.edit.Entries)), Target: target, Event: event,
		Class: Change, Version: w.version, At: w.now}
	seen := w.e.notes[noteName{target, event}]
	if t != nil {
		row.Class, row.Deployment, row.Revision = Note, t.number, t.revision
		seen = t.notesOf(target, event)
	}
	key := noteKey{row.Deployment, noteName{target, event}}
	w.notes[key]++
	row.Occurrence = seen + w.notes[key]
	if about != nil {
		row.Detail, _ = json.Marshal(about) // plain structs of strings and numbers always marshal
	}
	w.edit.Entries = append(w.edit.Entries, row)
}

// moves records the hosts that left and joined, by path. The rows are for people; the fold goes by
// the graphs.
func (w *editing) moves() {
	m := w.e.movesTo(w.old, w.next)
	for _, h := range m.left {
		if now := w.next.def.NameNow(w.old.hosts[h].path); w.next.hasHost(now) && w.isRenamed(now) {
			continue
		}
		w.row(nil, w.old.hosts[h].path, HostLeft, nil)
	}
	for _, h := range m.joined {
		if !w.isRenamed(w.next.hosts[h].path) {
			w.row(nil, w.next.hosts[h].path, HostJoined, nil)
		}
	}
}

// isRenamed reports whether a host of the next version has been in the old one under a name that
// its stage or group had.
func (w *editing) isRenamed(host string) bool {
	names := w.next.def.NamesOf(host)
	return !w.old.hasHost(host) && slices.ContainsFunc(names[1:], w.old.hasHost)
}

// newlyLacking returns the architectures that this edit introduces and that late excludes.
func newlyLacking(late []exclusion, news []introduced) map[string]bool {
	labels := map[string]bool{}
	for _, x := range late {
		if label := artifactLabel(x.event); label != "" && slices.Contains(news, introduced{stepKind{x.target, x.event}, true}) {
			labels[label] = true
		}
	}
	return labels
}

// hands reports which batches over stages an edit makes or moves, and their new holders.
func (w *editing) hands() {
	for _, b := range changedRegions(w.old, w.next, nil) {
		name, holder := w.next.short(string(b.id)), w.e.holderOf(b.id).deployment
		var inside []int // indexes of the effects on deployments in the region
		for i, f := range w.edit.Effects {
			if t := w.e.deployments[f.Deployment]; t == holder || w.e.willBeInside(t, w.next, b) {
				inside = append(inside, i)
			}
		}
		for k, i := range inside { // effects are in the order of rank
			f := &w.edit.Effects[i]
			switch first := w.edit.Effects[inside[0]].Deployment; {
			case k > 0:
				f.Words = append(f.Words, fmt.Sprintf("waits for batch %s of %s once its live work has ended", name, w.e.number(first)))
			case w.e.deployments[first] != holder:
				f.Words = append(f.Words, "holds batch "+name)
			}
		}
	}
}

// willBeInside reports whether, under the next version, a deployment is inside a region and keeps
// it: a step of it is complete or claimed, and the deployment has neither passed the region nor
// failed, unless it failed there under `hold` or `rollback`.
func (e *Engine) willBeInside(t *deployment, next *Graph, b batch) bool {
	later := &deployment{plan: next, walk: e.walkOn(t, next).walk}
	if !later.isInside(b) || later.is(b.close, resolved) {
		return false
	}
	failed := t.status == StatusFailed
	for _, path := range next.stagePaths(b.stages) {
		at, ok := t.plan.targets[path]
		if !ok || t.failing[at.stage] == 0 {
			continue
		}
		if next.def.Stages[next.targets[path].stage].OnFailure == Release {
			return false
		}
		failed = false
	}
	return !failed
}
