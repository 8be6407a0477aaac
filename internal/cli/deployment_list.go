package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/server"
)

// listLimit is how many rows a list shows unless --limit says otherwise.
const listLimit = 20

func (a *app) deploymentListCommand() *cobra.Command {
	query := journal.DeploymentQuery{}
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
			return a.withSession(c, func(ctx context.Context, s *session) error { return a.listDeployments(ctx, s, query) })
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

func (a *app) listDeployments(ctx context.Context, s *session, q journal.DeploymentQuery) error {
	found, err := s.Deployments(ctx, q)
	if err != nil {
		return err
	}
	if a.json() {
		return a.printJSON(list(found))
	}
	if len(found) == 0 {
		fmt.Fprintln(a.err, "no deployments")
		return nil
	}
	var t table
	paint, now := a.style(a.out), time.Now()
	t.add("DEPLOYMENT", "REVISION", "STATUS", "KIND", "BY", "CREATED", "TOOK")
	for _, d := range found {
		t.add(refOf(d).String(), d.Label, paintStatus(paint, d.Status), d.Kind, dash(d.By), ago(now, d.CreatedAt), tookOf(d, now))
	}
	return t.write(a.out)
}

// tookOf is how long a deployment took, or has taken so far.
func tookOf(d journal.Deployment, now time.Time) string {
	switch {
	case !d.EndedAt.IsZero():
		return server.Took(d.EndedAt.Sub(d.CreatedAt))
	case d.Status == pipeline.StatusActive:
		return server.Took(now.Sub(d.CreatedAt))
	}
	return "-"
}

func paintStatus(s style, status pipeline.Status) string {
	switch status {
	case pipeline.StatusFinished:
		return s.good(string(status))
	case pipeline.StatusFailed:
		return s.bad(string(status))
	case pipeline.StatusActive:
		return s.busy(string(status))
	default:
		return s.warn(string(status))
	}
}
