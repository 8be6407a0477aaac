package deployment

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

func deploymentShowCommand(a *cmdline.App) *cobra.Command {
	return &cobra.Command{
		Use:   "show [DEPLOYMENT]",
		Short: "Show a deployment: its stages, hosts and steps; what failed, why, and what to do",
		Long:  "Without a name: the newest deployment of this folder's pipeline.",
		Example: cmdline.Examples("waybill deployment show", "waybill deployment show greeter#7",
			"waybill deployment show greeter   # its newest",
			"waybill deployment show greeter#7 -o json | jq .failures"),
		Args:              cmdline.Arguments(0, 1, "DEPLOYMENT"),
		ValidArgsFunction: cmdline.CompleteDeployments(a),
		RunE: cmdline.WithDeployment(a, func(ctx context.Context, s *assembly.Session, ref service.Ref, _ []string) error {
			return runShowDeployment(ctx, showDeploymentOptions{Deployments: s, Ref: ref, Idle: s.IsIdle, Out: a.Printer(), Now: time.Now})
		}),
	}
}

type showDeploymentOptions struct {
	Deployments operation.Caller
	Ref         service.Ref
	Idle        func(context.Context) bool
	Out         show.Printer
	Now         func() time.Time
}

// runShowDeployment prints one deployment.
func runShowDeployment(ctx context.Context, o showDeploymentOptions) error {
	v, err := operation.GetDeployment.Call(ctx, o.Deployments, operation.PathOf(o.Ref))
	if err != nil {
		return err
	}
	if v.State.Status == pipeline.StatusActive && !o.Out.JSON && !service.OfKubernetes(v.Pipeline) {
		cmdline.WarnIfIdle(ctx, o.Out, o.Idle)
	}
	return o.Out.Answer(v, show.Deployment(v, o.Out.Style, o.Now())...)
}
