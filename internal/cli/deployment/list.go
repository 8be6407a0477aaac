package deployment

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

func deploymentListCommand(a *cmdline.App) *cobra.Command {
	query := operation.DeploymentsInput{}
	c := &cobra.Command{
		Use:   "list [PIPELINE]",
		Short: "List deployments, newest first",
		Long: `Lists deployments, newest first: those of one pipeline, or without a name those of all pipelines of
waybill.yaml files. The runs of a pipeline of Kubernetes, such as apps:podinfo, are listed under its
name.`,
		Example: cmdline.Examples("waybill deployment list", "waybill deployment list greeter --status active -o json",
			"waybill deployment list apps:podinfo"),
		Args:              cmdline.Arguments(0, 1, "PIPELINE"),
		ValidArgsFunction: cmdline.CompletePipelines(a),
		RunE: func(c *cobra.Command, arguments []string) error {
			query.Pipeline = cmdline.Optional(arguments, 0)
			if err := checkStatus(query.Status); err != nil {
				return err
			}
			return a.WithSession(c, func(ctx context.Context, s *assembly.Session) error {
				return runListDeployments(ctx, listDeploymentsOptions{Deployments: s, Query: query, Out: a.Printer(), Now: time.Now})
			})
		},
	}
	c.Flags().StringVar(&query.Status, "status", "", "only active, finished, failed, superseded or canceled ones")
	c.Flags().IntVar(&query.Limit, "limit", cmdline.ListLimit, "at most this many; 0: all")
	cmdline.Offer(c, "status", deploymentStatuses()...)
	return c
}

// deploymentStatuses returns the statuses that a deployment may have.
func deploymentStatuses() []string {
	return []string{string(pipeline.StatusActive), string(pipeline.StatusFinished), string(pipeline.StatusFailed),
		string(pipeline.StatusSuperseded), string(pipeline.StatusCanceled)}
}

// checkStatus returns an error for a text that is not a status of a deployment; "" is any.
func checkStatus(text string) error {
	known := deploymentStatuses()
	if text == "" || slices.Contains(known, text) {
		return nil
	}
	return fault.New(fault.Invalid, "%q is not a status of a deployment", text).
		WithHint("%s", cmdline.NearestHint(text, known, "--status %s", "--status active, finished, failed, superseded or canceled"))
}

type listDeploymentsOptions struct {
	Deployments operation.Caller
	Query       operation.DeploymentsInput
	Out         show.Printer
	Now         func() time.Time
}

// runListDeployments prints the deployments that a query finds.
func runListDeployments(ctx context.Context, o listDeploymentsOptions) error {
	if o.Query.Limit < 0 {
		return fault.New(fault.Invalid, "--limit is %d; want 0 or more", o.Query.Limit)
	}
	found, err := operation.AllDeployments(ctx, o.Deployments, o.Query)
	if err != nil {
		return err
	}
	none := "no deployments"
	if o.Query.Pipeline == "" {
		none += "; those of a pipeline of Kubernetes are listed under its name"
	}
	return show.List(o.Out, found, none, func(found []journal.Deployment) []string {
		return show.Deployments(found, o.Out.Style, o.Now())
	})
}
