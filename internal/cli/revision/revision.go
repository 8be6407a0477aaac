// Package revision has the commands of revisions: waybill revision.
package revision

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

func Command(a *cmdline.App) *cobra.Command {
	return cmdline.Group("revision", "Read, compare, register, reject and accept revisions",
		"A revision is a state of a project's files, under a label that is its own in the pipeline.",
		revisionListCommand(a), revisionShowCommand(a), revisionRegisterCommand(a), revisionArtifactCommand(a),
		revisionDiffCommand(a), revisionRejectCommand(a), revisionAcceptCommand(a))
}

func revisionListCommand(a *cmdline.App) *cobra.Command {
	limit := cmdline.ListLimit
	c := &cobra.Command{
		Use:               "list [PIPELINE]",
		Short:             "List revisions, newest first",
		Example:           cmdline.Examples("waybill revision list greeter", "waybill revision list greeter -o json | jq -r '.[].label'"),
		Args:              cmdline.Arguments(0, 1, "PIPELINE"),
		ValidArgsFunction: cmdline.CompletePipelines(a),
		RunE: cmdline.WithPipeline(a, func(ctx context.Context, s *assembly.Session, name string) error {
			return runListRevisions(ctx, listRevisionsOptions{Revisions: s, Pipeline: name, Limit: limit, Out: a.Printer(), Now: time.Now})
		}),
	}
	c.Flags().IntVar(&limit, "limit", cmdline.ListLimit, "at most this many; 0: all")
	return c
}

type listRevisionsOptions struct {
	Revisions operation.Caller
	Pipeline  string
	Limit     int // 0: all
	Out       show.Printer
	Now       func() time.Time
}

// runListRevisions prints the newest revisions of a pipeline.
func runListRevisions(ctx context.Context, o listRevisionsOptions) error {
	found, err := operation.ListRevisions.Call(
		ctx,
		o.Revisions,
		operation.RevisionsInput{PipelinePath: operation.PipelinePath{Pipeline: o.Pipeline}, Limit: o.Limit},
	)
	if err != nil {
		return err
	}
	return show.List(o.Out, found, "no revisions",
		func(found []pipeline.RegisteredRevision) []string { return show.Revisions(found, o.Out.Style, o.Now()) })
}

func revisionShowCommand(a *cmdline.App) *cobra.Command {
	return &cobra.Command{
		Use:               "show PIPELINE LABEL",
		Short:             "Show a revision: its commit, its artifacts, its deployments",
		Example:           cmdline.Examples("waybill revision show greeter 3f2c9a1"),
		Args:              cmdline.Arguments(2, 2, "PIPELINE", "LABEL"),
		ValidArgsFunction: cmdline.InTurn(cmdline.CompletePipelines(a), cmdline.CompleteRevisions(a)),
		RunE: cmdline.WithLog(a, func(ctx context.Context, s *assembly.Session, arguments []string) error {
			return runShowRevision(ctx, showRevisionOptions{Log: s, Pipeline: arguments[0], Label: arguments[1], Out: a.Printer()})
		}),
	}
}

// revisionDocument is `waybill revision show -o json`.
type revisionDocument struct {
	pipeline.RegisteredRevision
	Deployments []journal.Deployment `json:"deployments"` // newest first
}

type showRevisionOptions struct {
	Log             operation.Caller
	Pipeline, Label string
	Out             show.Printer
}

// runShowRevision prints one revision with its deployments.
func runShowRevision(ctx context.Context, o showRevisionOptions) error {
	r, err := operation.GetRevision.Call(ctx, o.Log,
		operation.LabelPath{PipelinePath: operation.PipelinePath{Pipeline: o.Pipeline}, Label: o.Label})
	if err != nil {
		return err
	}
	made, err := operation.AllDeployments(ctx, o.Log, operation.DeploymentsInput{Pipeline: o.Pipeline, Revision: r.Seq})
	if err != nil {
		return err
	}
	return o.Out.Answer(revisionDocument{RegisteredRevision: r, Deployments: show.Items(made)}, show.Revision(r, made)...)
}
