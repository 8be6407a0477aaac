package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/server"
)

func pipelineFreezeCommand(a *app) *cobra.Command {
	var freeze pipeline.Freeze
	until := ""
	c := &cobra.Command{
		Use:   "freeze [PIPELINE]",
		Short: "Start nothing in a pipeline until it is thawed",
		Long: `Keeps back every stage, group and host of a pipeline that has not started, in all of its
deployments. What has started on a host runs to its end. With --until the freeze ends by itself.
Without a name: this folder's pipeline.`,
		Example:           examples("waybill pipeline freeze greeter --until 12h --reason holidays", "waybill pipeline freeze greeter --until 2026-12-27T09:00:00+01:00"),
		Args:              arguments(0, 1, "PIPELINE"),
		ValidArgsFunction: completePipelines(a),
		RunE: func(c *cobra.Command, given []string) (err error) {
			if freeze.Until, err = readAt("--until", until, time.Now()); err != nil {
				return err
			}
			freeze.By = a.User()
			return a.changeFreeze(c, given, func(ctx context.Context, s freezer, name string) (server.FreezeView, error) {
				return s.Freeze(ctx, name, freeze)
			})
		},
	}
	c.Flags().StringVar(&until, "until", "", "when it ends by itself: a time, or a duration from now")
	c.Flags().StringVar(&freeze.Reason, "reason", "", "the reason, kept in the log and shown")
	return c
}

func pipelineThawCommand(a *app) *cobra.Command {
	reason := ""
	c := &cobra.Command{
		Use:               "thaw [PIPELINE]",
		Short:             "End the freeze of a pipeline",
		Example:           examples("waybill pipeline thaw greeter"),
		Args:              arguments(0, 1, "PIPELINE"),
		ValidArgsFunction: completePipelines(a),
		RunE: func(c *cobra.Command, given []string) error {
			return a.changeFreeze(c, given, func(ctx context.Context, s freezer, name string) (server.FreezeView, error) {
				return s.Thaw(ctx, name, a.User(), reason)
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "the reason, kept in the log")
	return c
}

// freezer freezes pipelines.
type freezer interface {
	Freeze(ctx context.Context, pipeline string, freeze pipeline.Freeze) (server.FreezeView, error)
	Thaw(ctx context.Context, pipeline, by, reason string) (server.FreezeView, error)
}

// changeFreeze changes whether a pipeline is frozen, and prints what it is then.
func (a *app) changeFreeze(c *cobra.Command, given []string, change func(context.Context, freezer, string) (server.FreezeView, error)) error {
	return a.withSession(c, func(ctx context.Context, s *assembly.Session) error {
		name, err := a.pipelineName(given)
		if err != nil {
			return err
		}
		view, err := change(ctx, s, name)
		if err != nil {
			return err
		}
		return a.printer().Answer(view, show.Freeze(view, time.Now()))
	})
}
