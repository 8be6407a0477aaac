package promotions

import (
	"context"

	"github.com/waybill-dev/waybill/internal/promotion"
)

// Deleted is the detail of the end of a run whose pipeline was deleted.
const Deleted = "the pipeline was deleted"

// Forget closes a pipeline whose object is gone: its runs are superseded, its live attempts canceled. Its rows stay. It does nothing if
// the pipeline of that UID is not known or closed already. The notices and facts of a change are announcements of this; a change of an
// older head is refused with ErrMoved.
func (p *Promotions) Forget(ctx context.Context, last Change) error {
	if err := last.check(); err != nil {
		return err
	}
	return p.write(ctx, "forget "+last.Pipeline, func(t *txn) error {
		if err := t.lock([]string{last.Pipeline}, nil); err != nil {
			return err
		}
		h := t.of(last.Pipeline, last.UID)
		if h == nil {
			return nil
		}
		if len(last.Notices) > 0 && h.Seq != last.Head {
			return ErrMoved
		}
		if err := t.close(h); err != nil {
			return err
		}
		if err := t.addFacts(h, last); err != nil {
			return err
		}
		return t.addNotices(h, last)
	})
}

// close ends the runs and attempts of a pipeline.
func (t *txn) close(h *Head) error {
	open, err := t.PromotionRuns(RunQuery{Head: h.ID, Open: true})
	if err != nil {
		return err
	}
	var entries []Entry
	for _, r := range open {
		if err := t.EndRun(h.ID, r.Number, promotion.Superseded, t.Now()); err != nil {
			return err
		}
		entries = append(entries, Entry{Fact: promotion.Fact{Run: r.Number, Event: promotion.PipelineSuperseded, Detail: Deleted}})
	}
	if err := t.append(h, entries); err != nil {
		return err
	}
	attempts, err := t.Attempts(h.ID, nil)
	if err != nil {
		return err
	}
	h.ClosedAt = t.Now()
	t.next(h)
	return t.stop(h, attempts)
}
