package server

import (
	"context"
	"net/http"

	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/service/buildview"
)

// madeBuildAnswer is the HTTP answer with a new build. The status is 200 if the build is not new.
type madeBuildAnswer struct {
	Status   int
	Location string `header:"Location"`
	Body     buildview.Summary
}

func answerMadeBuild(made operation.MadeBuild) *madeBuildAnswer {
	out := &madeBuildAnswer{Status: http.StatusOK, Body: made.Summary}
	if made.Created {
		out.Status = http.StatusCreated
	}
	if made.ID != "" {
		out.Location = "/api/build/" + made.ID
	}
	return out
}

// registerBuildChanges registers the operations that start, cancel, repeat and delete builds.
func (a *api) registerBuildChanges() {
	handle(a, operation.ListProjects, func(context.Context, *operation.Nothing) ([]service.ProjectView, error) {
		return a.service.Projects(), nil
	})
	handleAs(a, operation.RunBuild, a.runBuild, answerMadeBuild)
	handleAs(a, operation.RerunBuild, a.rerunBuild, answerMadeBuild)
	handle(a, operation.CancelBuild, func(ctx context.Context, in *operation.BuildPath) (buildview.Summary, error) {
		return a.service.CancelBuild(ctx, in.ID, service.IdentityOf(ctx).Name)
	})
	handleAs(a, operation.DeleteBuild, func(ctx context.Context, in *operation.BuildPath) (operation.Nothing, error) {
		return operation.Nothing{}, a.service.DeleteBuild(ctx, in.ID)
	}, func(operation.Nothing) *operation.Nothing { return nil })
}

func (a *api) runBuild(ctx context.Context, in *operation.RunBuildInput) (operation.MadeBuild, error) {
	if in.Body == nil {
		in.Body = &operation.RunBuildBody{}
	}
	made, created, err := a.service.RunBuild(
		ctx,
		service.NewBuild{Project: in.Project, Branch: in.Branch, Commit: in.Body.Commit, Environment: in.Environment,
			Engine: in.Engine, Stages: in.Stages, Inputs: in.Body.Inputs, Passwords: in.Body.Passwords,
			By: service.IdentityOf(ctx).Name, IdempotencyKey: in.IdempotencyKey, DryRun: in.DryRun},
	)
	return operation.MadeBuild{Summary: made, Created: created}, err
}

func (a *api) rerunBuild(ctx context.Context, in *operation.RerunBuildInput) (operation.MadeBuild, error) {
	if in.Body == nil {
		in.Body = &operation.RerunBuildBody{}
	}
	made, created, err := a.service.RerunBuild(
		ctx,
		service.BuildRerun{ID: in.ID, Passwords: in.Body.Passwords, Resume: in.Resume, By: service.IdentityOf(ctx).Name,
			IdempotencyKey: in.IdempotencyKey},
	)
	return operation.MadeBuild{Summary: made, Created: created}, err
}
