package promotions

import (
	"context"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Pipelines lists heads, by name.
func (p *Promotions) Pipelines(ctx context.Context, q HeadQuery) (heads []Head, err error) {
	err = p.list(ctx, "list Kubernetes pipelines", func(t *txn) error {
		heads, err = t.PromotionHeads(q)
		return err
	})
	return heads, err
}

// Runs lists runs of a pipeline, newest first.
func (p *Promotions) Runs(ctx context.Context, q RunQuery) (runs []Run, err error) {
	err = p.list(ctx, "list runs of "+q.Pipeline, func(t *txn) error {
		runs, err = t.PromotionRuns(q)
		return err
	})
	return runs, err
}

// Run reads one run. The error is fault.NotFound if there is none.
func (p *Promotions) Run(ctx context.Context, pipeline string, number int64) (Run, error) {
	runs, err := p.Runs(ctx, RunQuery{Pipeline: pipeline, Numbers: []int64{number}, Limit: 1})
	if err == nil && len(runs) == 0 {
		err = fault.New(fault.NotFound, "run %s#%d not found", pipeline, number)
	}
	if err != nil {
		return Run{}, err
	}
	return runs[0], nil
}

// Page selects entries of a run or of a pipeline, oldest first.
type Page struct {
	Pipeline string // namespace:name
	Run      int64  // number; 0: entries of the pipeline itself
	All      bool   // entries of the pipeline and of all its runs; Run is 0
	After    int64  // sequence
	Limit    int    // 0: all
}

// Entries lists entries of a run. The error is fault.NotFound for an unknown pipeline.
func (p *Promotions) Entries(ctx context.Context, q Page) (entries []Entry, err error) {
	err = p.list(ctx, "list entries of "+q.Pipeline, func(t *txn) error {
		id, err := t.headOf(q.Pipeline, q.Run)
		if err != nil {
			return err
		}
		want := EntryQuery{Head: id, Runs: []int64{q.Run}, After: q.After, Limit: q.Limit}
		if q.All {
			want.Runs = nil
		}
		entries, err = t.PromotionEntries(want)
		return err
	})
	return entries, err
}

// headOf returns the id of the head that a run belongs to; run 0 is of the pipeline that has the name now, or had it last.
func (t *txn) headOf(pipeline string, run int64) (id int64, err error) {
	heads, err := t.PromotionHeads(HeadQuery{Name: pipeline, Closed: true})
	if err != nil {
		return 0, err
	}
	for _, h := range heads { // oldest first; each has the runs after those of the one before
		if id = h.ID; run > 0 && run <= h.Newest {
			break
		}
	}
	if id == 0 {
		return 0, notFound(pipeline)
	}
	return id, nil
}

// Freezes reads the freezes that are in force, by pipeline; that of all pipelines has the name "".
func (p *Promotions) Freezes(ctx context.Context) (found map[string]admission.Freeze, err error) {
	err = p.read(ctx, "read freezes", func(t *txn) error {
		if found, err = t.Rows.Freezes(nil); err != nil {
			return err
		}
		for name, f := range found {
			if !f.InForce(t.Now()) {
				delete(found, name)
			}
		}
		return nil
	})
	return found, err
}
