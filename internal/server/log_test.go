package server_test

import (
	"encoding/json"
	"testing"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
)

// TestALongLogIsAnsweredWhole over HTTP, as a list and as a stream.
func TestALongLogIsAnsweredWhole(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	s.Apply(t, servertest.Definition)
	for range service.EntriesPage / 2 {
		if err := onlyError(s.Service.Freeze(t.Context(), "greeter", admission.Freeze{By: "ana"})); err != nil {
			t.Fatal(err)
		}
		if err := onlyError(s.Service.Thaw(t.Context(), "greeter", "ana", "")); err != nil {
			t.Fatal(err)
		}
	}
	const want = service.EntriesPage + 1 // with the definition
	status, body, header := s.ask(t, "GET", "/api/v1/pipelines/greeter/log", "")
	var entries []pipeline.Entry
	if err := json.Unmarshal([]byte(body), &entries); status != 200 || header.Get("Content-Type") != "application/json" ||
		err != nil || len(entries) != want || entries[want-1].Seq != want {
		t.Errorf("%d %s with %d entries, %v, want %d", status, header.Get("Content-Type"), len(entries), err, want)
	}
	if ids := s.stream(t, "/api/v1/pipelines/greeter/log", "", want); len(ids) != want {
		t.Errorf("a stream of %d entries, want %d", len(ids), want)
	}
}
