package promotions

import (
	"context"

	"github.com/waybill-dev/waybill/internal/promotion"
)

// Forget closes a pipeline whose object is gone: its runs are superseded, its live actions canceled. Its rows stay. It does nothing if
// the pipeline of that UID is not known or closed already.
func (p *Promotions) Forget(ctx context.Context, name, uid string) error {
	return p.write(ctx, "forget "+name, func(t *txn) error {
		if err := t.lock([]string{name}, nil); err != nil {
			return err
		}
		h := t.of(name, uid)
		if h == nil {
			return nil
		}
		return t.close(h)
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
		entries = append(entries, Entry{Fact: promotion.Fact{Run: r.Number, Event: promotion.PipelineSuperseded,
			Detail: "the pipeline was deleted"}})
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
