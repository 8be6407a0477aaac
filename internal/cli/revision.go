package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
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
			return a.withSession(c, func(ctx context.Context, s *session) error {
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

func (a *app) listRevisions(ctx context.Context, ops operations, name string, limit int) error {
	found, err := ops.Revisions(ctx, name, limit)
	if err != nil {
		return err
	}
	if a.json() {
		return a.printJSON(list(found))
	}
	if len(found) == 0 {
		fmt.Fprintln(a.err, "no revisions")
		return nil
	}
	var t table
	t.add("REVISION", "STATE", "BY", "REGISTERED", "SUBJECT")
	for _, r := range found {
		t.add(r.Label, r.State, dash(r.By), ago(time.Now(), r.CreatedAt), r.Subject)
	}
	return t.write(a.out)
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
			return a.withSession(c, func(ctx context.Context, s *session) error {
				return a.showRevision(ctx, s, arguments[0], arguments[1])
			})
		},
	}
}

// revisionDocument is `waybill revision show -o json`.
type revisionDocument struct {
	pipeline.RegisteredRevision
	Deployments []journal.Deployment `json:"deployments"` // newest first
}

func (a *app) showRevision(ctx context.Context, ops operations, name, label string) error {
	r, err := ops.Revision(ctx, name, label)
	if err != nil {
		return err
	}
	made, err := ops.Deployments(ctx, journal.DeploymentQuery{Pipeline: name, Revision: r.Seq})
	if err != nil {
		return err
	}
	if a.json() {
		return a.printJSON(revisionDocument{RegisteredRevision: r, Deployments: list(made)})
	}
	var t table
	t.add("revision", r.Label)
	t.add("commit", dash(r.Commit))
	t.add("subject", dash(r.Subject))
	t.add("state", r.State)
	t.add("registered", fmt.Sprintf("%s by %s", r.CreatedAt.Local().Format("2006-01-02 15:04:05"), dash(r.By)))
	for _, artifact := range r.Artifacts {
		t.add("artifact "+artifact.Label, fmt.Sprintf("%s  %s", artifactText(artifact.Size, artifact.Digest), artifact.Name))
	}
	for _, d := range made {
		t.add("deployment", fmt.Sprintf("%s  %s", refOf(d), d.Status))
	}
	return t.write(a.out)
}
