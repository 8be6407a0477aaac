package journal

import (
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/store"
)

// append writes entries behind the head, each with the next position. A fact that the log already
// has is not written again and takes no position. The head must be locked, since it is the only
// counter of positions and has the digest that the next entry is linked to. append advances the
// head in memory; the caller writes its row, once for all that the transaction appends. The error
// is fault.Conflict if an entry was decided for another position.
func (t *txn) append(head *HeadRow, entries []pipeline.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	last, err := t.occurrences(head, entries)
	if err != nil {
		return err
	}
	fresh := make([]pipeline.Entry, 0, len(entries))
	for _, e := range entries {
		e, repeated := number(t.fill(head, e), last)
		if repeated {
			continue
		}
		head.Seq++
		// An engine has applied the entries that it decided, at the positions that it counted. With
		// other positions in the log, its state would be that of another log.
		if e.Seq != 0 && e.Seq != head.Seq {
			return fault.New(fault.Conflict, "%s of %s was decided for position %d, the log is at %d", e.Event, e.Target, e.Seq, head.Seq)
		}
		e.Seq = head.Seq
		e.Digest = e.Link(head.Digest)
		head.Digest = e.Digest
		fresh = append(fresh, e)
	}
	if len(fresh) == 0 {
		return nil
	}
	// Entries come before roll-ups, because drivers create a target with its first entry and roll-ups
	// only update targets.
	if err := t.InsertEntries(head.ID, fresh); err != nil {
		return err
	}
	t.Touch(store.TopicEntry)
	return t.rollUp(head, fresh)
}

// fill sets the fields of an entry that its caller leaves to the journal. The time is always the
// transaction's: times of callers come from clocks that may differ. An entry without a target is
// about the pipeline, and one without a version about the version in force.
func (t *txn) fill(head *HeadRow, e pipeline.Entry) pipeline.Entry {
	e.Pipeline, e.At = head.Pipeline, t.Now()
	if e.Target == "" {
		e.Target = head.Pipeline
	}
	if e.Version == 0 {
		e.Version = head.Version
	}
	if len(e.Detail) > 0 {
		e.Detail = store.CleanJSON(e.Detail)
	}
	return e
}

// occurrences returns the highest occurrence in the log of each entry's (deployment, target, event).
// A step without an entry is missing from the map: 0 is the occurrence of its fact.
func (t *txn) occurrences(head *HeadRow, entries []pipeline.Entry) (map[pipeline.StepKey]int, error) {
	keys := make([]pipeline.StepKey, len(entries))
	for i, e := range entries {
		e = t.fill(head, e)
		keys[i] = pipeline.StepKey{Deployment: e.Deployment, Target: e.Target, Event: e.Event}
	}
	marked, err := t.Marked(head.ID, keys)
	last := make(map[pipeline.StepKey]int, len(marked))
	for _, e := range marked {
		last[pipeline.StepKey{Deployment: e.Deployment, Target: e.Target, Event: e.Event}] = e.Occurrence
	}
	return last, err
}

// number gives an entry its occurrence and reports whether the log already has it. A fact always has
// occurrence 0, so the database's unique key admits one. Notes and changes count from 1, unless the
// caller has counted. number updates the map, so that entries of one call count one after the other.
func number(e pipeline.Entry, last map[pipeline.StepKey]int) (pipeline.Entry, bool) {
	key := pipeline.StepKey{Deployment: e.Deployment, Target: e.Target, Event: e.Event}
	known, seen := last[key]
	if e.Class == pipeline.Fact {
		e.Occurrence = 0
		last[key] = 0
		return e, seen
	}
	if e.Occurrence == 0 {
		e.Occurrence = known + 1
	}
	last[key] = max(known, e.Occurrence)
	return e, seen && e.Occurrence <= known
}
