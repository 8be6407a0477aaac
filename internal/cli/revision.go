package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/ledger"
)

func (a *app) revisionCommand() *cobra.Command {
	return group("revision", "Read registered revisions", "A revision is a state of a project's files, under a label that is its own in the pipeline.",
		a.revisionListCommand(), a.revisionShowCommand())
}

func (a *app) revisionListCommand() *cobra.Command {
	limit := listLimit
	c := &cobra.Command{
		Use:               "list [PIPELINE]",
		Short:             "List revisions, newest first",
		Example:           examples("waybill revision list greeter", "waybill revision list greeter -o json | jq -r '.[].label'"),
		Args:              arguments(0, 1, "PIPELINE"),
		ValidArgsFunction: a.completePipelines,
		RunE: func(c *cobra.Command, arguments []string) error {
			return a.withSession(c, func(ctx context.Context, s *assembly.Session) error {
				name, err := a.pipelineName(arguments)
				if err != nil {
					return err
				}
				return a.listRevisions(ctx, s, name, limit)
			})
		},
	}
	c.Flags().IntVar(&limit, "limit", listLimit, "at most this many; 0: all")
	return c
}

func (a *app) listRevisions(ctx context.Context, ops assembly.Operations, name string, limit int) error {
	found, err := ops.Revisions(ctx, name, limit)
	if err != nil {
		return err
	}
	return show.List(a.printer(), found, "no revisions", func(found []ledger.Revision) []string { return show.Revisions(found, time.Now()) })
}

func (a *app) revisionShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "show PIPELINE LABEL",
		Short:   "Show a revision: its commit, its artifacts, its deployments",
		Example: examples("waybill revision show greeter 3f2c9a1"),
		Args:    arguments(2, 2, "PIPELINE", "LABEL"),
		ValidArgsFunction: func(c *cobra.Command, given []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(given) == 0 {
				return a.completePipelines(c, given, typed)
			}
			return a.completeRevisions(c, given, typed)
		},
		RunE: func(c *cobra.Command, arguments []string) error {
			return a.withSession(c, func(ctx context.Context, s *assembly.Session) error {
				return a.showRevision(ctx, s, arguments[0], arguments[1])
			})
		},
	}
}

// revisionDocument is `waybill revision show -o json`.
type revisionDocument struct {
	ledger.Revision
	Deployments []ledger.Deployment `json:"deployments"` // newest first
}

func (a *app) showRevision(ctx context.Context, ops assembly.Operations, name, label string) error {
	r, err := ops.Revision(ctx, name, label)
	if err != nil {
		return err
	}
	made, err := ops.Deployments(ctx, ledger.DeploymentQuery{Pipeline: name, Revision: r.Seq})
	if err != nil {
		return err
	}
	return a.printer().Answer(revisionDocument{Revision: r, Deployments: show.Items(made)}, show.Revision(r, made)...)
}
