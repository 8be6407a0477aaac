package deployment

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

func TestLogPrintsEntries(t *testing.T) {
	t.Parallel()
	f, o := &clitest.Log{Written: logged()}, clitest.NewOutput(clitest.AsText)
	if err := runLog(t.Context(), logOptions{Log: f, Query: journal.EntryQuery{Pipeline: "greeter"}, Out: o.Printer,
		Now: clitest.Noon}); err != nil {
		t.Fatal(err)
	}
	if got := o.Printed.String(); strings.Count(got, "\n") != 2 ||
		!strings.Contains(got, "     4  12:00:04  #2    greeter/build             build-completed\n") {
		t.Errorf("printed %q", got)
	}
	o = clitest.NewOutput(clitest.AsJSON)
	if err := runLog(t.Context(), logOptions{Log: f, Out: o.Printer, Now: clitest.Noon}); err != nil ||
		strings.Count(o.Printed.String(), "\n") != 2 || !strings.HasPrefix(o.Printed.String(), "{") {
		t.Errorf("%v, printed %q", err, o.Printed.String())
	}
}

func TestLogFollows(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	f, o := &clitest.Log{Written: logged()}, clitest.NewOutput(clitest.AsText)
	stop()
	if err := runLog(ctx, logOptions{Log: f, Follow: true, Out: o.Printer, Now: clitest.Noon}); !errors.Is(err,
		context.Canceled) || strings.Count(o.Printed.String(), "\n") != 2 {
		t.Errorf("%v, printed %q", err, o.Printed.String())
	}
}

func TestAnEmptyLogIsExplained(t *testing.T) {
	t.Parallel()
	definition := pipeline.Definition{Pipeline: "greeter",
		Stages: []pipeline.Stage{{Name: "prod", Groups: []pipeline.Group{{Name: "all", Hosts: []pipeline.Host{{Name: "elm"}}}}}}}
	f := &clitest.Log{Pipelines: []service.PipelineView{{Name: "greeter", Definition: &definition}, {Name: "bare"}}}
	for _, c := range []struct {
		query      journal.EntryQuery
		code       fault.Code
		text, hint string
	}{
		{journal.EntryQuery{Pipeline: "greeter"}, "", "", ""},
		{journal.EntryQuery{Pipeline: "greeter", Target: "greeter/elm"}, fault.NotFound,
			"nothing is recorded for greeter/elm", "waybill log greeter --target prod/all/elm"},
		{journal.EntryQuery{Pipeline: "greeter", Target: "greeter/zzzzzzzz"}, fault.NotFound, "nothing is recorded", "waybill log greeter"},
		{journal.EntryQuery{Pipeline: "bare", Target: "bare/x"}, fault.NotFound, "nothing is recorded", "waybill log bare"},
		{journal.EntryQuery{Pipeline: "other"}, fault.NotFound, `pipeline "other" not found`, ""},
		{journal.EntryQuery{Pipeline: "greeter", Deployment: 7}, fault.NotFound, "deployment greeter#7 not found", ""},
	} {
		err := runLog(t.Context(), logOptions{Log: f, Query: c.query, Out: clitest.NewOutput(clitest.AsText).Printer, Now: clitest.Noon})
		if c.code == "" {
			if err != nil {
				t.Errorf("%+v: %v", c.query, err)
			}
			continue
		}
		clitest.WantFault(t, err, c.code, c.text, c.hint)
	}
}

func TestLikelyTargetIsTheEndOfOneOrTheNearest(t *testing.T) {
	t.Parallel()
	d := &pipeline.Definition{Pipeline: "notes", Stages: []pipeline.Stage{{Name: "prod", Groups: []pipeline.Group{
		{Name: "all", Hosts: []pipeline.Host{{Name: "eu1"}, {Name: "us1"}}}}}}}
	for target, want := range map[string]string{"notes/eu1": "notes/prod/all/eu1", "notes/all/us1": "notes/prod/all/us1",
		"notes/prd": "notes/prod", "notes/nothing": ""} {
		if got := likelyTarget(d, target); got != want {
			t.Errorf("%s: got %q, want %q", target, got, want)
		}
	}
}
