package operation

import (
	"net/http"

	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/service/buildview"
)

// RunBuildBody is the body of a request to build a project.
type RunBuildBody struct {
	Inputs    map[string]string `json:"inputs,omitempty" doc:"values of the inputs of the build's file"`
	Passwords map[string]string `json:"passwords,omitempty" doc:"values of its inputs of type password; kept encrypted until the worker has them; another build engine is given none"`
	Commit    string            `json:"commit,omitempty" maxLength:"64" doc:"all hex digits of a commit; default: what the branch is at when the build begins"`
}

// RunBuildInput is a request for a build of a project.
type RunBuildInput struct {
	Project        string        `path:"project" maxLength:"100" doc:"name of the project in server.yaml"`
	Stages         []string      `query:"stage,explode" maxItems:"500" doc:"only these stages, or ALL; default: all"`
	Branch         string        `query:"branch" maxLength:"250" doc:"default: the project's, else the repository's own"`
	Environment    string        `query:"environment" maxLength:"1000"`
	Engine         string        `query:"engine" maxLength:"63" doc:"another build engine of server.yaml, or waybill for a worker; default: the project's, else builds.engine"`
	DryRun         bool          `query:"dry-run" doc:"check the request and the types of its inputs, and start nothing; the answer is the build without an id"`
	IdempotencyKey string        `header:"Idempotency-Key" maxLength:"255" doc:"repeating the same request with this key within 24 hours returns the same build"`
	Body           *RunBuildBody // nil: no inputs, at the branch
}

// MadeBuild is the build that a request was for.
type MadeBuild struct {
	buildview.Summary
	Created bool `json:"-"` // false: the request was a repeat, or a dry run; over HTTP the status reports it
}

// RerunBuildBody is the body of a request to build again.
type RerunBuildBody struct {
	Passwords map[string]string `json:"passwords,omitempty" doc:"those that the build had: they are not kept"`
}

// RerunBuildInput is a request to run a build again.
type RerunBuildInput struct {
	BuildPath
	Resume         bool            `query:"resume" doc:"reuse the steps that completed and are still the same: they do not run again"`
	IdempotencyKey string          `header:"Idempotency-Key" maxLength:"255" doc:"repeating the same request with this key within 24 hours returns the same build"`
	Body           *RerunBuildBody // nil: it had no passwords
}

// Operations that change builds. Their paths are those of wharf-api, without a version.
var (
	ListProjects = Operation[Nothing, []service.ProjectView]{ID: "list-projects", Method: http.MethodGet,
		Path:    "/api/project",
		Summary: "The projects that can be built without a deployment"}
	RunBuild = Operation[RunBuildInput, MadeBuild]{ID: "run-build", Method: http.MethodPost,
		Path: "/api/project/{project}/build", Scope: service.ScopeExecute, Status: http.StatusCreated,
		Summary: "Build a project"}
	RerunBuild = Operation[RerunBuildInput, MadeBuild]{ID: "rerun-build", Method: http.MethodPost,
		Path: "/api/build/{build}/rerun", Scope: service.ScopeExecute, Status: http.StatusCreated,
		Summary: "Build the commit of an ended build again"}
	CancelBuild = Operation[BuildPath, buildview.Summary]{ID: "cancel-build", Method: http.MethodPost,
		Path: "/api/build/{build}/cancel", Scope: service.ScopeOperate, Status: http.StatusAccepted,
		Summary: "Cancel a build"}
	DeleteBuild = Operation[BuildPath, Nothing]{ID: "delete-build", Method: http.MethodDelete,
		Path: "/api/build/{build}", Scope: service.ScopeOperate, Status: http.StatusNoContent,
		Summary: "Delete what is stored of an ended build"}
)
