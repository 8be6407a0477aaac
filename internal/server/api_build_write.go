package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// runBuildBody is what a build of a project is given.
type runBuildBody struct {
	Inputs    map[string]string `json:"inputs,omitempty" doc:"values of the inputs of the build's file"`
	Passwords map[string]string `json:"passwords,omitempty" doc:"values of its inputs of type password; kept encrypted until the worker has them; another build engine is given none"`
	Commit    string            `json:"commit,omitempty" maxLength:"64" doc:"all hex digits of a commit; default: what the branch is at when the build begins"`
}

// runBuildInput is a request for a build of a project.
type runBuildInput struct {
	Project        string        `path:"project" maxLength:"100" doc:"name of the project in server.yaml"`
	Stages         []string      `query:"stage,explode" maxItems:"500" doc:"only these stages, or ALL; default: all"`
	Branch         string        `query:"branch" maxLength:"250" doc:"default: the project's, else the repository's own"`
	Environment    string        `query:"environment" maxLength:"1000"`
	Engine         string        `query:"engine" maxLength:"63" doc:"another build engine of server.yaml, or waybill for a worker; default: the project's, else builds.engine"`
	DryRun         bool          `query:"dry-run" doc:"check the request and the types of its inputs, and start nothing; the answer is the build without an id"`
	IdempotencyKey string        `header:"Idempotency-Key" maxLength:"255" doc:"repeating the same request with this key within 24 hours returns the same build"`
	Body           *runBuildBody // nil: no inputs, at the branch
}

// madeBuildOut is a new build. The status is 200 if the request was a repeat, or a dry run.
type madeBuildOut struct {
	Status   int
	Location string `header:"Location"`
	Body     BuildSummary
}

func madeBuild(made BuildSummary, created bool, err error) (*madeBuildOut, error) {
	if err != nil {
		return nil, problemOf(err)
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	out := &madeBuildOut{Status: status, Body: made}
	if made.ID != "" {
		out.Location = "/api/build/" + made.ID
	}
	return out, nil
}

// rerunBuildBody is what a build is given again.
type rerunBuildBody struct {
	Passwords map[string]string `json:"passwords,omitempty" doc:"those that the build had: they are not kept"`
}

// rerunBuildInput is a request to run a build again.
type rerunBuildInput struct {
	BuildPath
	Resume         bool            `query:"resume" doc:"reuse the steps that completed and are still the same: they do not run again"`
	IdempotencyKey string          `header:"Idempotency-Key" maxLength:"255" doc:"repeating the same request with this key within 24 hours returns the same build"`
	Body           *rerunBuildBody // nil: it had no passwords
}

// buildChange returns an operation that changes builds. Their paths are those of wharf-api, without a version.
func buildChange(id, method, path string, scope Scope, status int, summary string) huma.Operation {
	op := writeOperation(id, method, "", scope, summary)
	op.Path, op.DefaultStatus = path, status
	return op
}

// registerBuildChanges registers the operations that start, cancel, repeat and delete builds.
func (a *api) registerBuildChanges() {
	handle(a, huma.Operation{OperationID: "list-projects", Method: http.MethodGet, Path: "/api/project", Summary: "The projects that can be built without a deployment"},
		func(context.Context, *nothing) ([]ProjectView, error) { return a.service.Projects(), nil })
	huma.Register(a.huma, buildChange("run-build", http.MethodPost, "/api/project/{project}/build", ScopeExecute, http.StatusCreated, "Build a project"),
		func(ctx context.Context, in *runBuildInput) (*madeBuildOut, error) {
			if in.Body == nil {
				in.Body = &runBuildBody{}
			}
			return madeBuild(a.service.RunBuild(ctx, NewBuild{Project: in.Project, Branch: in.Branch, Commit: in.Body.Commit, Environment: in.Environment,
				Engine: in.Engine, Stages: in.Stages, Inputs: in.Body.Inputs, Passwords: in.Body.Passwords, By: IdentityOf(ctx).Name, IdempotencyKey: in.IdempotencyKey, DryRun: in.DryRun}))
		})
	huma.Register(a.huma, buildChange("rerun-build", http.MethodPost, "/api/build/{build}/rerun", ScopeExecute, http.StatusCreated, "Build the commit of an ended build again"),
		func(ctx context.Context, in *rerunBuildInput) (*madeBuildOut, error) {
			if in.Body == nil {
				in.Body = &rerunBuildBody{}
			}
			return madeBuild(a.service.RerunBuild(ctx, BuildRerun{ID: in.ID, Passwords: in.Body.Passwords, Resume: in.Resume, By: IdentityOf(ctx).Name, IdempotencyKey: in.IdempotencyKey}))
		})
	handle(a, buildChange("cancel-build", http.MethodPost, "/api/build/{build}/cancel", ScopeOperate, http.StatusAccepted, "Cancel a build"),
		func(ctx context.Context, in *BuildPath) (BuildSummary, error) {
			return a.service.CancelBuild(ctx, in.ID, IdentityOf(ctx).Name)
		})
	remove := buildChange("delete-build", http.MethodDelete, "/api/build/{build}", ScopeOperate, http.StatusNoContent, "Delete what is stored of an ended build")
	huma.Register(a.huma, remove, func(ctx context.Context, in *BuildPath) (*struct{}, error) {
		if err := a.service.DeleteBuild(ctx, in.ID); err != nil {
			return nil, problemOf(err)
		}
		return nil, nil //nolint:nilnil // 204 has no body
	})
}
