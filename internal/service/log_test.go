package service_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

// TestALogIsReadInPages, unless the query has a limit: a log may have more entries than fit into memory.
func TestALogIsReadInPages(t *testing.T) {
	t.Parallel()
	const size = 2*service.EntriesPage + 7
	for _, c := range []struct {
		q    journal.EntryQuery
		asks []journal.EntryQuery // each with an After and a Limit
		want int
	}{
		{journal.EntryQuery{}, []journal.EntryQuery{{Limit: service.EntriesPage},
			{After: service.EntriesPage, Limit: service.EntriesPage}, {After: 2 * service.EntriesPage, Limit: service.EntriesPage}}, size},
		{journal.EntryQuery{After: 5, Newest: true},
			[]journal.EntryQuery{{After: 5, Limit: service.EntriesPage}, {After: 5 + service.EntriesPage,
				Limit: service.EntriesPage}, {After: 5 + 2*service.EntriesPage, Limit: service.EntriesPage}}, size - 5},
		{journal.EntryQuery{Limit: 1200, Newest: true}, []journal.EntryQuery{{Limit: 1200, Newest: true}}, 1200},
	} {
		var asks []journal.EntryQuery
		var got []int64
		read := func(q journal.EntryQuery) (rows []pipeline.Entry, _ error) {
			asks = append(asks, q)
			from := q.After
			if q.Newest {
				from = size - int64(q.Limit)
			}
			for seq := from + 1; seq <= min(size, from+int64(q.Limit)); seq++ {
				rows = append(rows, pipeline.Entry{Seq: seq})
			}
			return rows, nil
		}
		last, err := service.EachPage(c.q, read, func(e pipeline.Entry) error { got = append(got, e.Seq); return nil })
		if err != nil || last != size || len(got) != c.want || !slices.IsSorted(got) {
			t.Errorf("%+v: %d entries up to %d, %v, want %d", c.q, len(got), last, err, c.want)
		}
		if diff := cmp.Diff(c.asks, asks); diff != "" {
			t.Errorf("%+v asks (-want +got)\n%s", c.q, diff)
		}
	}
}
