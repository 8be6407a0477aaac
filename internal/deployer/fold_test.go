package deployer_test

import (
	"context"
	"errors"
	"testing"

	"github.com/waybill-dev/waybill/internal/deployer"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// TestALongLogIsReadInPages, two side by side, and folded in order.
func TestALongLogIsReadInPages(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.define(t, greeter("greeter"))
	l := f.logs["greeter"]
	for len(l.entries) < 25_003 {
		l.add(pipeline.Entry{Pipeline: "greeter", Target: "greeter", Event: pipeline.ServiceStopped, Class: pipeline.Change})
	}
	engine, err := deployer.Fold(t.Context(), f, "greeter")
	if err != nil || engine.Seq() != 25_003 {
		t.Fatalf("the fold ends at %d, %v", engine.Seq(), err)
	}
	torn := errors.New("torn")
	if _, err := deployer.Fold(t.Context(), tearing{f, torn}, "greeter"); !errors.Is(err, torn) {
		t.Errorf("a page that cannot be read: %v", err)
	}
}

// tearing is a log whose second page cannot be read.
type tearing struct {
	*fake
	err error
}

func (l tearing) Entries(ctx context.Context, q journal.EntryQuery) ([]pipeline.Entry, error) {
	if q.After == 10_000 {
		return nil, l.err
	}
	return l.fake.Entries(ctx, q)
}
