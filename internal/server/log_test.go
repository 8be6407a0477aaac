package server_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/servertest"
)

// TestALogIsReadInPages, unless the query has a limit: a log may have more entries than fit into memory.
func TestALogIsReadInPages(t *testing.T) {
	t.Parallel()
	const size = 2*server.EntriesPage + 7
	for _, c := range []struct {
		q    journal.EntryQuery
		asks []journal.EntryQuery // each with an After and a Limit
		want int
	}{
		{journal.EntryQuery{}, []journal.EntryQuery{{Limit: server.EntriesPage}, {After: server.EntriesPage, Limit: server.EntriesPage}, {After: 2 * server.EntriesPage, Limit: server.EntriesPage}}, size},
		{journal.EntryQuery{After: 5, Newest: true}, []journal.EntryQuery{{After: 5, Limit: server.EntriesPage}, {After: 5 + server.EntriesPage, Limit: server.EntriesPage}, {After: 5 + 2*server.EntriesPage, Limit: server.EntriesPage}}, size - 5},
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
		last, err := server.EachPage(c.q, read, func(e pipeline.Entry) error { got = append(got, e.Seq); return nil })
		if err != nil || last != size || len(got) != c.want || !slices.IsSorted(got) {
			t.Errorf("%+v: %d entries up to %d, %v, want %d", c.q, len(got), last, err, c.want)
		}
		if diff := cmp.Diff(c.asks, asks); diff != "" {
			t.Errorf("%+v asks (-want +got)\n%s", c.q, diff)
		}
	}
}

// TestALongLogIsAnsweredWhole over HTTP, as a list and as a stream.
func TestALongLogIsAnsweredWhole(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	s.Apply(t, servertest.Definition)
	for range server.EntriesPage / 2 {
		if err := onlyError(s.Service.Freeze(t.Context(), "greeter", admission.Freeze{By: "ana"})); err != nil {
			t.Fatal(err)
		}
		if err := onlyError(s.Service.Thaw(t.Context(), "greeter", "ana", "")); err != nil {
			t.Fatal(err)
		}
	}
	const want = server.EntriesPage + 1 // with the definition
	status, body, header := s.ask(t, "GET", "/api/v1/pipelines/greeter/log", "")
	var entries []pipeline.Entry
	if err := json.Unmarshal([]byte(body), &entries); status != 200 || header.Get("Content-Type") != "application/json" || err != nil || len(entries) != want || entries[want-1].Seq != want {
		t.Errorf("%d %s with %d entries, %v, want %d", status, header.Get("Content-Type"), len(entries), err, want)
	}
	if ids := s.stream(t, "/api/v1/pipelines/greeter/log", "", want); len(ids) != want {
		t.Errorf("a stream of %d entries, want %d", len(ids), want)
	}
}
