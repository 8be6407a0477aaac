package revision

import (
	"context"
	"testing"

	"github.com/waybill-dev/waybill/internal/cli/clitest"
)

// revisionRuns holds the commands that query the log, with the least that they need.
func revisionRuns() clitest.Runs[*clitest.Log] {
	return clitest.Runs[*clitest.Log]{
		"revision list": func(ctx context.Context, f *clitest.Log, o *clitest.Output) error {
			return runListRevisions(ctx, listRevisionsOptions{Revisions: f, Pipeline: "greeter", Out: o.Printer, Now: clitest.Noon})
		},
		"revision show": func(ctx context.Context, f *clitest.Log, o *clitest.Output) error {
			return runShowRevision(ctx, showRevisionOptions{Log: f, Pipeline: "greeter", Label: "r1", Out: o.Printer})
		},
	}
}

func TestRevisionsReturnTheLogsErrors(t *testing.T) {
	t.Parallel()
	revisionRuns().WantErrors(t, func() *clitest.Log { return &clitest.Log{Err: clitest.ErrAway} },
		func(f *clitest.Log) []string { return f.Calls })
}

func TestEmptyListsOfRevisions(t *testing.T) {
	t.Parallel()
	revisionRuns().WantEmpty(t, func() *clitest.Log { return &clitest.Log{} }, map[string]string{
		"revision list": "no revisions",
	})
}
