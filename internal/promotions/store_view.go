package promotions

import (
	"context"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/promotion"
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

// Observed is the part of a pipeline's state that is neither in the log nor in the view: decisions and their side effects need it.
type Observed struct {
	Input promotion.Input                      `json:"input"`           // see promotion.Input.Observed
	Hosts map[promotion.EnvName]promotion.Host `json:"hosts,omitempty"` // repositories of environments with pull requests
	// Keys has the names of the Secrets whose keys sign approvals, by environment.
	Keys   map[promotion.EnvName]string `json:"keys,omitempty"`
	Faults []string                     `json:"faults,omitempty"` // faults of the definition, with their fields: nothing is decided
}

// viewDocument is the stored form of a view.
type viewDocument struct {
	View

	Observed *Observed `json:"observed,omitempty"`
}

// ViewDocument returns a view as SaveView stores it, at the time that it has.
func ViewDocument(v View) (string, error) { return Document(viewDocument{v, v.Observed}) }

// readView reads a stored view. Without observed it leaves out that part.
func readView(text string, v *View, observed bool) error {
	if !observed {
		return ReadDocument(text, v)
	}
	var d viewDocument
	err := ReadDocument(text, &d)
	*v = d.View
	v.Observed = d.Observed
	return err
}

// SaveView stores the view of a pipeline instead of its former one. At becomes the database's time.
func (p *Promotions) SaveView(ctx context.Context, v View) error { return p.SaveViews(ctx, []View{v}) }

// SaveViews stores views of several pipelines, as SaveView does, in one transaction.
func (p *Promotions) SaveViews(ctx context.Context, views []View) error {
	return p.write(ctx, "store views of pipelines", func(t *txn) error {
		t.Touch(store.TopicPromotion)
		for _, v := range views {
			v.At = t.Now()
			text, err := ViewDocument(v)
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
			if err := readView(text, &views[i], q.Name != ""); err != nil {
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
