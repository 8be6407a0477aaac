package pipeline

import (
	"context"
	"testing"

	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
)

// pipelineRuns holds the commands that query the log, with the least that they need.
func pipelineRuns() clitest.Runs[*clitest.Log] {
	return clitest.Runs[*clitest.Log]{
		"pipeline list": func(ctx context.Context, f *clitest.Log, o *clitest.Output) error {
			return runListPipelines(ctx, listPipelinesOptions{Pipelines: f, Out: o.Printer})
		},
		"pipeline show": func(ctx context.Context, f *clitest.Log, o *clitest.Output) error {
			return runShowPipeline(ctx, showPipelineOptions{Pipelines: f, Name: "greeter", Out: o.Printer})
		},
		"pipeline versions": func(ctx context.Context, f *clitest.Log, o *clitest.Output) error {
			return runListVersions(ctx, listVersionsOptions{Definitions: f, Name: "greeter", Out: o.Printer})
		},
		"pipeline apply": func(ctx context.Context, f *clitest.Log, o *clitest.Output) error {
			return runApply(ctx, cmdline.ApplyOptions{Edits: f, Out: o.Printer})
		},
	}
}

func TestPipelinesReturnTheLogsErrors(t *testing.T) {
	t.Parallel()
	pipelineRuns().WantErrors(t, func() *clitest.Log { return &clitest.Log{Err: clitest.ErrAway} },
		func(f *clitest.Log) []string { return f.Calls })
}

func TestEmptyListsOfPipelines(t *testing.T) {
	t.Parallel()
	pipelineRuns().WantEmpty(t, func() *clitest.Log { return &clitest.Log{} }, map[string]string{
		"pipeline list":     "no pipelines",
		"pipeline versions": "no definition was applied",
	})
}
