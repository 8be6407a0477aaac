package revision

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/operation"
)

func revisionDiffCommand(a *cmdline.App) *cobra.Command {
	return &cobra.Command{
		Use:   "diff PIPELINE FROM TO",
		Short: "List the revisions between two stages or revisions",
		Long: `Compares the current revisions of two points and lists the revisions that the older one does not
have, with their commits. FROM and TO are stages, or labels of revisions; a name that is both is the
stage.`,
		Example: cmdline.Examples("waybill revision diff greeter beta prod",
			"waybill revision diff greeter 88d0e17 prod -o json | jq -r '.revisions[].commit'"),
		Args:              cmdline.Arguments(3, 3, "PIPELINE", "FROM", "TO"),
		ValidArgsFunction: cmdline.InTurn(cmdline.CompletePipelines(a), cmdline.CompleteRevisions(a), cmdline.CompleteRevisions(a)),
		RunE: cmdline.WithLog(a, func(ctx context.Context, s *assembly.Session, arguments []string) error {
			return runDiff(ctx, diffOptions{Log: s, Pipeline: arguments[0], From: arguments[1], To: arguments[2], Out: a.Printer(), Now: time.Now})
		}),
	}
}

type diffOptions struct {
	Log                operation.Caller
	Pipeline, From, To string
	Out                show.Printer
	Now                func() time.Time
}

// runDiff prints the revisions between two points.
func runDiff(ctx context.Context, o diffOptions) error {
	view, err := operation.GetDifference.Call(
		ctx,
		o.Log,
		operation.DifferenceInput{PipelinePath: operation.PipelinePath{Pipeline: o.Pipeline}, From: o.From, To: o.To},
	)
	if err != nil {
		return err
	}
	return o.Out.Answer(view, show.Difference(view, o.Now())...)
}
