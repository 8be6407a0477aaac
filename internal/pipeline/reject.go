package pipeline

import "github.com/waybill-dev/waybill/internal/fault"

// A rejected revision is not deployed until it is accepted: its deployments are neither created nor
// retried, and active ones start nothing new, as if they were held.

// Reject returns the change that rejects a revision. It is refused if the revision is rejected.
func (e *Engine) Reject(revision int64, label, by, reason string) (Entry, error) {
	if e.rejected[revision] != nil {
		return Entry{}, e.refuseRejected(revision, label)
	}
	return e.judgment(RevisionRejected, revision, rejectionDetail{label, by, reason})
}

// Accept returns the change that accepts a rejected revision again. It is refused if the revision
// is not rejected.
func (e *Engine) Accept(revision int64, label, by, reason string) (Entry, error) {
	if e.rejected[revision] == nil {
		return Entry{}, fault.New(fault.Refused, "revision %s is not rejected", label)
	}
	return e.judgment(RevisionAccepted, revision, rejectionDetail{label, by, reason})
}

// judgment returns a change of the known state of a revision.
func (e *Engine) judgment(event string, revision int64, about rejectionDetail) (Entry, error) {
	entry, err := e.change(event, about)
	entry.Revision = revision
	return entry, err
}

// judge folds a rejection of a revision, or with nil that it was accepted again.
func (e *Engine) judge(revision int64, rejection *hold) {
	e.rejected[revision] = rejection
	for _, t := range e.order {
		if t.revision == revision {
			t.rejected = rejection
		}
	}
	e.wakeAll()
}

// refuseRejected returns the refusal of what a rejected revision does not allow.
func (e *Engine) refuseRejected(revision int64, label string) error {
	return fault.New(fault.Refused, "revision %s was rejected %s", label, e.rejected[revision]).
		WithHint("waybill revision accept %s %s", e.pipeline, label)
}
