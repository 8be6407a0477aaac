package server

import (
	"cmp"
	"context"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

func (a *api) registerDeployments() {
	handle(a, operation.RollbackPipeline, a.rollBack)
	handle(a, operation.CatchUpPipeline, a.catchUp)
	handle(a, operation.ListDeployments, a.listDeployments)
	handle(a, operation.CreateDeployment, a.deploy)
	handle(a, operation.GetDeployment, byRef(a, a.service.Deployment))
	handle(a, operation.ListSteps, byRef(a, a.service.Steps))
	handle(a, operation.ExplainDeployment,
		func(ctx context.Context, in *operation.WhyInput) ([]pipeline.StepState, error) {
			ref, err := a.service.Resolve(ctx, in.ID)
			if err != nil {
				return nil, err
			}
			return a.service.Why(ctx, ref, in.Target)
		})
	for _, kind := range []string{"retry", "skip", "hold", "resume", "until", "alarm", "cancel"} {
		handle(a, operation.CommandDeployment(kind), a.command(kind))
	}
}

// byRef returns the function of an operation that reads something of the deployment that its path names.
func byRef[Out any](a *api,
	read func(context.Context, service.Ref) (Out, error)) func(context.Context, *operation.DeploymentPath) (Out, error) {
	return func(ctx context.Context, in *operation.DeploymentPath) (out Out, err error) {
		ref, err := a.service.Resolve(ctx, in.ID)
		if err != nil {
			return out, err
		}
		return read(ctx, ref)
	}
}

func (a *api) listDeployments(ctx context.Context, in *operation.DeploymentsInput) ([]journal.Deployment, error) {
	if in.Before > 0 && in.Pipeline == "" {
		return nil, fault.New(fault.Invalid, "before needs pipeline")
	}
	return a.service.Deployments(ctx, journal.DeploymentQuery{
		Pipeline: in.Pipeline, Revision: in.Revision, Status: pipeline.Status(in.Status), Before: in.Before,
		Limit: cmp.Or(in.Limit, service.RecentLimit),
	})
}

// would answers a dry run of a command that would make a deployment.
func would(d journal.Deployment, preview operation.Preview, err error) (operation.CommandAnswer, error) {
	return operation.CommandAnswer{Deployment: d, Preview: &preview}, err
}

func (a *api) rollBack(ctx context.Context, in *operation.RollbackInput) (answer operation.CommandAnswer, err error) {
	want := service.TargetRequest{Pipeline: in.Pipeline, By: service.IdentityOf(ctx).Name}
	if b := in.Body; b != nil {
		want.Target, want.Reason, want.Undoes, want.Revision, want.To = b.Target, b.Reason, b.Undoes, b.Revision, b.To
	}
	if in.DryRun {
		preview, err := a.service.PreviewRollback(ctx, want)
		return would(
			journal.Deployment{Pipeline: in.Pipeline, Kind: journal.Rollback, Label: preview.Revision},
			operation.Preview{Rollback: &preview},
			err,
		)
	}
	answer.Deployment, err = a.service.Rollback(ctx, want)
	return answer, err
}

func (a *api) catchUp(ctx context.Context, in *operation.CatchUpInput) (answer operation.CommandAnswer, err error) {
	want := service.TargetRequest{Pipeline: in.Pipeline, By: service.IdentityOf(ctx).Name}
	if b := in.Body; b != nil {
		want.Target, want.Reason = b.Target, b.Reason
	}
	if in.DryRun {
		preview, err := a.service.PreviewCatchUp(ctx, want)
		return would(
			journal.Deployment{Pipeline: in.Pipeline, Kind: journal.CatchUp, Label: preview.Revision},
			operation.Preview{CatchUp: &preview},
			err,
		)
	}
	answer.Deployment, err = a.service.CatchUp(ctx, want)
	return answer, err
}

func (a *api) deploy(ctx context.Context, in *operation.DeployInput) (answer operation.CommandAnswer, err error) {
	want := service.NewDeployment{Pipeline: in.Pipeline, Revision: in.Body.Revision, Target: in.Body.Target, Until: in.Body.Until,
		By: service.IdentityOf(ctx).Name, Key: in.IdempotencyKey}
	if in.DryRun {
		preview, err := a.service.PreviewDeploy(ctx, want)
		return would(
			journal.Deployment{Pipeline: in.Pipeline, Kind: journal.Manual, Label: preview.Revision, Version: preview.Version},
			operation.Preview{Deploy: &preview},
			err,
		)
	}
	answer.Deployment, err = a.service.Deploy(ctx, want)
	return answer, err
}

// command returns the handler of a kind of command. It answers with the state of the deployment after the command.
func (a *api) command(kind string) func(context.Context, *operation.CommandInput) (operation.CommandAnswer, error) {
	return func(ctx context.Context, in *operation.CommandInput) (answer operation.CommandAnswer, err error) {
		ref, err := a.service.Resolve(ctx, in.ID)
		if err != nil {
			return answer, err
		}
		intent := service.Command{Kind: kind, By: service.IdentityOf(ctx).Name}
		if b := in.Body; b != nil {
			intent.Target, intent.Event, intent.Reason, intent.Now, intent.Until = b.Target, b.Event, b.Reason, b.Now, b.Until
		}
		if in.DryRun {
			preview, err := a.service.PreviewCommand(ctx, ref, intent)
			if err != nil {
				return answer, err
			}
			answer.Preview = &operation.Preview{Command: &preview}
		} else if err := a.service.Command(ctx, ref, intent); err != nil {
			return answer, err
		}
		answer.Deployment, err = a.service.ReadDeployment(ctx, ref)
		if ref.Number == 0 && fault.Is(err, fault.NotFound) { // the pipeline is held before its first run
			return operation.CommandAnswer{Deployment: journal.Deployment{Pipeline: ref.Pipeline}, Preview: answer.Preview}, nil
		}
		return answer, err
	}
}
