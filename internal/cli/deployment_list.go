package cli

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// listLimit is how many rows a list shows unless --limit says otherwise.
const listLimit = 20

func (a *app) deploymentListCommand() *cobra.Command {
	query := ledger.DeploymentQuery{}
	status := ""
	c := &cobra.Command{
		Use:               "list [PIPELINE]",
		Short:             "List deployments, newest first",
		Example:           examples("waybill deployment list", "waybill deployment list greeter --status active -o json"),
		Args:              arguments(0, 1, "PIPELINE"),
		ValidArgsFunction: a.completePipelines,
		RunE: func(c *cobra.Command, arguments []string) error {
			if len(arguments) > 0 {
				query.Pipeline = arguments[0]
			}
			var err error
			if query.Status, err = parseStatus(status); err != nil {
				return err
			}
			return a.withSession(c, func(ctx context.Context, s *assembly.Session) error { return a.listDeployments(ctx, s, query) })
		},
	}
	c.Flags().StringVar(&status, "status", "", "only active, finished, failed, superseded or canceled ones")
	c.Flags().IntVar(&query.Limit, "limit", listLimit, "at most this many; 0: all")
	offer(c, "status", deploymentStatuses()...)
	return c
}

// deploymentStatuses are those that a deployment may have.
func deploymentStatuses() []string {
	return []string{string(pipeline.StatusActive), string(pipeline.StatusFinished), string(pipeline.StatusFailed), string(pipeline.StatusSuperseded), string(pipeline.StatusCanceled)}
}

// parseStatus reads a deployment's status; "" is any.
func parseStatus(text string) (pipeline.Status, error) {
	known := deploymentStatuses()
	if text == "" || slices.Contains(known, text) {
		return pipeline.Status(text), nil
	}
	wrong := fault.New(fault.Invalid, "there is no status %q", text)
	if near := fault.Nearest(text, known); near != "" {
		return "", wrong.WithHint("--status %s", near)
	}
	return "", wrong.WithHint("--status active, finished, failed, superseded or canceled")
}

func (a *app) listDeployments(ctx context.Context, s *assembly.Session, q ledger.DeploymentQuery) error {
	found, err := s.Deployments(ctx, q)
	if err != nil {
		return err
	}
	p := a.printer()
	return show.List(p, found, "no deployments", func(found []ledger.Deployment) []string { return show.Deployments(found, p.Style, time.Now()) })
}
