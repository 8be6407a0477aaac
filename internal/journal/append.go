package journal

import (
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/store"
)

// append writes entries behind the head, each with the next position. A fact
// that is there already is not written again and takes no position. The head
// row itself is written by the caller.
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
		if e.Seq != 0 && e.Seq != head.Seq {
			return fault.New(fault.Conflict, "%s of %s was decided for position %d, the log is at %d", e.Event, e.Target, e.Seq, head.Seq)
		}
		e.Seq = head.Seq
		fresh = append(fresh, e)
	}
	if len(fresh) == 0 {
		return nil
	}
	if err := t.InsertEntries(head.ID, fresh); err != nil {
		return err
	}
	t.Touch(store.TopicEntry)
	return t.rollUp(head, fresh)
}

// fill sets the fields of an entry that its caller leaves to the journal.
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

// occurrences is the highest occurrence in the log of each entry's (deployment, target, event).
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

// number gives a note its occurrence and reports whether the entry is in the log already.
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
