package promotionstest

import (
	"testing"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/promotions"
)

// viewsAreKeptByName checks that the last view of a name counts, also of a pipeline without rows, until it is deleted.
func viewsAreKeptByName(t *testing.T, s setup) {
	p, ctx := s.Promotions, s.ctx
	for _, view := range []promotions.View{{Pipeline: "b:one", Latest: "1"}, {Pipeline: "a:two", Latest: "1"}, {Pipeline: "a:two", Latest: "2"}} {
		if err := p.SaveView(ctx, view); err != nil {
			t.Fatal(err)
		}
	}
	all, err := p.Views(ctx, promotions.ViewQuery{})
	if err != nil || len(all) != 2 || all[0].Pipeline != "a:two" || all[0].Latest != "2" || all[0].At.IsZero() {
		t.Errorf("views: %+v, %v; want a:two with 2, then b:one", all, err)
	}
	if after, err := p.Views(ctx, promotions.ViewQuery{After: "a:two", Limit: 5}); err != nil || len(after) != 1 ||
		after[0].Pipeline != "b:one" {
		t.Errorf("views after a:two: %+v, %v; want b:one", after, err)
	}
	if err := p.DeleteView(ctx, "a:two"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.View(ctx, "a:two"); !fault.Is(err, fault.NotFound) {
		t.Errorf("a deleted view: %v; want not found", err)
	}
	if one, err := p.View(ctx, "b:one"); err != nil || one.Latest != "1" {
		t.Errorf("view of b:one: %+v, %v", one, err)
	}
}
