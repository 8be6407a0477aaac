package promotions

import (
	"context"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store"
)

// ViewQuery selects views, by name.
type ViewQuery struct {
	Name  string // "": all
	After string // only names after this one
	Limit int    // 0: all
}

// ViewRows is the rows of views in one transaction. A view belongs to a name: a pipeline has one before it has a head.
type ViewRows interface {
	// PutView stores the view of a pipeline instead of its former one; "" deletes it.
	PutView(pipeline, document string) error
	// Views reads views as PutView has stored them.
	Views(q ViewQuery) ([]string, error)
}

// SaveView stores the view of a pipeline instead of its former one. At becomes the database's time.
func (p *Promotions) SaveView(ctx context.Context, v View) error { return p.SaveViews(ctx, []View{v}) }

// SaveViews stores views of several pipelines, as SaveView does, in one transaction.
func (p *Promotions) SaveViews(ctx context.Context, views []View) error {
	return p.write(ctx, "store views of pipelines", func(t *txn) error {
		t.Touch(store.TopicPromotion)
		for _, v := range views {
			v.At = t.Now()
			text, err := Document(v)
			if err != nil {
				return err
			}
			if err := t.PutView(v.Pipeline, text); err != nil {
				return err
			}
		}
		return nil
	})
}

// DeleteView deletes the view of a pipeline that no longer exists.
func (p *Promotions) DeleteView(ctx context.Context, pipeline string) error {
	return p.write(ctx, "delete the view of "+pipeline, func(t *txn) error {
		t.Touch(store.TopicPromotion)
		return t.PutView(pipeline, "")
	})
}

// Views lists the views of pipelines, by name.
func (p *Promotions) Views(ctx context.Context, q ViewQuery) (views []View, err error) {
	err = p.list(ctx, "list views of Kubernetes pipelines", func(t *txn) error {
		texts, err := t.Rows.Views(q)
		if err != nil {
			return err
		}
		views = make([]View, len(texts))
		for i, text := range texts {
			if err := ReadDocument(text, &views[i]); err != nil {
				return err
			}
		}
		return nil
	})
	return views, err
}

// View reads the view of a pipeline. The error is fault.NotFound if there is none.
func (p *Promotions) View(ctx context.Context, pipeline string) (View, error) {
	views, err := p.Views(ctx, ViewQuery{Name: pipeline, Limit: 1})
	if err == nil && len(views) == 0 {
		err = fault.New(fault.NotFound, "pipeline %q not found", pipeline)
	}
	if err != nil {
		return View{}, err
	}
	return views[0], nil
}
