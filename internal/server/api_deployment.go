package server

import (
	"context"
	"net/http"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// DeploymentPath is the part of a path that names a deployment.
type DeploymentPath struct {
	ID string `path:"id" doc:"greeter#7 (the # as %23), or the deployment's id"`
}

type deploymentQuery struct {
	Pipeline string `query:"pipeline"`
	Revision int64  `query:"revision" doc:"rev_seq"`
	Status   string `query:"status" enum:"active,finished,failed,superseded,canceled"`
	Before   int64  `query:"before" doc:"keyset: only lower numbers; needs pipeline"`
	Limit    int    `query:"limit" minimum:"0" maximum:"1000" doc:"default 50"`
}

type whyInput struct {
	DeploymentPath
	Target string `query:"target" doc:"only this target and those below it"`
}

// DryRunQuery is the part of a query that asks what a command would do.
type DryRunQuery struct {
	DryRun bool `query:"dry-run" doc:"change nothing; the answer's preview says what would be done"`
}

// commandAnswer answers a command on deployments.
type commandAnswer struct {
	journal.Deployment          // the one that was made or commanded; of a dry run that would make one, without id and number
	Preview            *Preview `json:"preview,omitempty" doc:"with dry-run: what would be done"`
}

// Preview is what a command would do, with one field set.
type Preview struct {
	Command  *CommandPreview  `json:"command,omitempty"`
	Rollback *RollbackPreview `json:"rollback,omitempty"`
	CatchUp  *RollbackPreview `json:"catchUp,omitempty"`
	Deploy   *DeployPreview   `json:"deploy,omitempty"`
}

// commandInput is a command of a person on a deployment.
type commandInput struct {
	DeploymentPath
	DryRunQuery
	Body *commandBody // optional
}

// commandBody is the body of a commandInput.
type commandBody struct {
	Target string `json:"target,omitempty" doc:"a stage, group or host; left out: the whole deployment. until: the last stage; left out: all stages"`
	Event  string `json:"event,omitempty" doc:"only this step of the target"`
	Reason string `json:"reason,omitempty"`
	Now    bool   `json:"now,omitempty" doc:"cancel: also interrupt builds and replication"`
}

type deployInput struct {
	PipelinePath
	DryRunQuery
	IdempotencyKey string `header:"Idempotency-Key" maxLength:"255" doc:"repeating the same request with this key within 24 hours returns the same deployment"`
	Body           deployBody
}

// deployBody is the body of a deployInput.
type deployBody struct {
	Revision string `json:"revision" doc:"label of a registered revision"`
	Target   string `json:"target,omitempty" doc:"a stage, group or host, to deploy to it alone; left out: the pipeline"`
	Until    string `json:"until,omitempty" doc:"the last stage; left out: all stages"`
}

// rollbackInput is the input of a rollback.
type rollbackInput struct {
	PipelinePath
	DryRunQuery
	Body *rollbackBody // optional
}

// rollbackBody is the body of a rollbackInput.
type rollbackBody struct {
	Target   string `json:"target,omitempty" doc:"a stage, group or host; left out: the pipeline"`
	Reason   string `json:"reason,omitempty" maxLength:"1000"`
	Undoes   int64  `json:"undoes,omitempty" minimum:"0" doc:"refuse to undo another deployment than this number, as a preview showed it"`
	Revision string `json:"revision,omitempty" doc:"refuse to bring back another revision than this label"`
}

// catchUpInput is the input of a catch-up.
type catchUpInput struct {
	PipelinePath
	DryRunQuery
	Body *catchUpBody // optional
}

// catchUpBody is the body of a catchUpInput.
type catchUpBody struct {
	Target string `json:"target,omitempty" doc:"a stage, group or host; left out: the pipeline"`
	Reason string `json:"reason,omitempty" maxLength:"1000"`
}

func (a *api) registerDeployments() {
	handle(a, writeOperation("rollback-pipeline", http.MethodPost, "/pipelines/{pipeline}/rollback", ScopeOperate,
		"Bring back the newest older revision that finished the stages of a target"), a.rollBack)
	handle(a, writeOperation("catch-up-pipeline", http.MethodPost, "/pipelines/{pipeline}/catch-up", ScopeExecute,
		"Bring the current revision of a group to the hosts that joined late, whose failure was tolerated, or that have lost it"), a.catchUp)
	handle(a, readOperation("list-deployments", "/deployments", "Deployments, newest first"), a.listDeployments)
	handle(a, writeOperation("create-deployment", http.MethodPost, "/pipelines/{pipeline}/deployments", ScopeExecute,
		"Deploy a registered revision once more"), a.deploy)
	handle(a, readOperation("get-deployment", "/deployments/{id}", "One deployment with its stages, groups, hosts and steps"),
		func(ctx context.Context, in *DeploymentPath) (DeploymentView, error) {
			ref, err := a.service.Resolve(ctx, in.ID)
			if err != nil {
				return DeploymentView{}, err
			}
			return a.service.Deployment(ctx, ref)
		})
	handle(a, readOperation("list-steps", "/deployments/{id}/steps", "Every step of a deployment, in order"),
		func(ctx context.Context, in *DeploymentPath) ([]pipeline.StepState, error) {
			ref, err := a.service.Resolve(ctx, in.ID)
			if err != nil {
				return nil, err
			}
			return a.service.Steps(ctx, ref)
		})
	handle(a, readOperation("why", "/deployments/{id}/why", "What each open step waits for"),
		func(ctx context.Context, in *whyInput) ([]pipeline.StepState, error) {
			ref, err := a.service.Resolve(ctx, in.ID)
			if err != nil {
				return nil, err
			}
			return a.service.Why(ctx, ref, in.Target)
		})
	for _, kind := range []string{"retry", "skip", "hold", "resume", "until", "alarm", "cancel"} {
		handle(a, writeOperation(kind+"-deployment", http.MethodPost, "/deployments/{id}/"+commandPath(kind), ScopeOperate,
			"Record the command "+kind), a.command(kind))
	}
}

func (a *api) listDeployments(ctx context.Context, in *deploymentQuery) ([]journal.Deployment, error) {
	if in.Before > 0 && in.Pipeline == "" {
		return nil, fault.New(fault.Invalid, "before needs pipeline")
	}
	q := journal.DeploymentQuery{
		Pipeline: in.Pipeline, Revision: in.Revision, Status: pipeline.Status(in.Status), Before: in.Before, Limit: in.Limit,
	}
	if q.Limit == 0 {
		q.Limit = RecentLimit
	}
	return a.service.Deployments(ctx, q)
}

// would answers a dry run of a command that would make a deployment.
func would(d journal.Deployment, preview Preview, err error) (commandAnswer, error) {
	return commandAnswer{Deployment: d, Preview: &preview}, err
}

func (a *api) rollBack(ctx context.Context, in *rollbackInput) (answer commandAnswer, err error) {
	want := TargetRequest{Pipeline: in.Pipeline, By: IdentityOf(ctx).Name}
	if b := in.Body; b != nil {
		want.Target, want.Reason, want.Undoes, want.Revision = b.Target, b.Reason, b.Undoes, b.Revision
	}
	if in.DryRun {
		preview, err := a.service.PreviewRollback(ctx, want)
		return would(journal.Deployment{Pipeline: in.Pipeline, Kind: journal.Rollback, Label: preview.Revision}, Preview{Rollback: &preview}, err)
	}
	answer.Deployment, err = a.service.Rollback(ctx, want)
	return answer, err
}

func (a *api) catchUp(ctx context.Context, in *catchUpInput) (answer commandAnswer, err error) {
	want := TargetRequest{Pipeline: in.Pipeline, By: IdentityOf(ctx).Name}
	if b := in.Body; b != nil {
		want.Target, want.Reason = b.Target, b.Reason
	}
	if in.DryRun {
		preview, err := a.service.PreviewCatchUp(ctx, want)
		return would(journal.Deployment{Pipeline: in.Pipeline, Kind: journal.CatchUp, Label: preview.Revision}, Preview{CatchUp: &preview}, err)
	}
	answer.Deployment, err = a.service.CatchUp(ctx, want)
	return answer, err
}

func (a *api) deploy(ctx context.Context, in *deployInput) (answer commandAnswer, err error) {
	want := NewDeployment{Pipeline: in.Pipeline, Revision: in.Body.Revision, Target: in.Body.Target, Until: in.Body.Until,
		By: IdentityOf(ctx).Name, Key: in.IdempotencyKey}
	if in.DryRun {
		preview, err := a.service.PreviewDeploy(ctx, want)
		return would(journal.Deployment{Pipeline: in.Pipeline, Kind: journal.Manual, Label: preview.Revision, Version: preview.Version}, Preview{Deploy: &preview}, err)
	}
	answer.Deployment, err = a.service.Deploy(ctx, want)
	return answer, err
}

// command returns the handler of a kind of command. It answers with the state of the deployment after the command.
func (a *api) command(kind string) func(context.Context, *commandInput) (commandAnswer, error) {
	return func(ctx context.Context, in *commandInput) (answer commandAnswer, err error) {
		ref, err := a.service.Resolve(ctx, in.ID)
		if err != nil {
			return answer, err
		}
		intent := Command{Kind: kind, By: IdentityOf(ctx).Name}
		if b := in.Body; b != nil {
			intent.Target, intent.Event, intent.Reason, intent.Now = b.Target, b.Event, b.Reason, b.Now
		}
		if in.DryRun {
			preview, err := a.service.PreviewCommand(ctx, ref, intent)
			if err != nil {
				return answer, err
			}
			answer.Preview = &Preview{Command: &preview}
		} else if err := a.service.Command(ctx, ref, intent); err != nil {
			return answer, err
		}
		answer.Deployment, err = a.service.readDeployment(ctx, ref)
		return answer, err
	}
}
