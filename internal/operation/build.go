package operation

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/service/buildview"
	"github.com/waybill-dev/waybill/internal/testresult"
)

// BuildsInput selects builds.
type BuildsInput struct {
	Status      string    `query:"status" maxLength:"20" doc:"Running, Completed, Failed, Canceled, TimedOut, Lost, …"`
	Project     string    `query:"project" maxLength:"200" doc:"the name of a pipeline, or of what else is built"`
	Pipeline    string    `query:"pipeline" maxLength:"200" doc:"the same as project"`
	Deployment  int64     `query:"deployment" minimum:"0"`
	Action      string    `query:"action" maxLength:"40" doc:"only attempts of this action"`
	Branch      string    `query:"branch" maxLength:"1000"`
	Commit      string    `query:"commit" maxLength:"100" doc:"its beginning"`
	Environment string    `query:"environment" maxLength:"1000"`
	Stage       string    `query:"stage" maxLength:"1000" doc:"that the build has"`
	Since       time.Time `query:"since" doc:"scheduled then or later"`
	Until       time.Time `query:"until" doc:"scheduled before"`
	Value       string    `query:"input" maxLength:"1000" doc:"NAME=VALUE, or a part of the value of any input; never of a password"`
	Artifact    string    `query:"artifact" maxLength:"200" doc:"in the name of an artifact"`
	Test        string    `query:"test" maxLength:"200" doc:"in the suite and name of a test"`
	Search      string    `query:"q" maxLength:"200" doc:"in the id, commit, branch, source, reason, project, stages, inputs, artifacts and tests"`
	After       string    `query:"after" maxLength:"200" doc:"the field next of the page before"`
	Limit       int       `query:"limit" minimum:"0" maximum:"500" doc:"default 50"`
}

func (in *BuildsInput) Query() buildview.Query {
	return buildview.Query{Status: build.Status(in.Status), Pipeline: cmp.Or(in.Project, in.Pipeline),
		Deployment: in.Deployment, Action: in.Action,
		Branch: in.Branch, Commit: in.Commit, Environment: in.Environment, Stage: in.Stage, Since: in.Since, Until: in.Until, Input: in.Value,
		Artifact: in.Artifact, Test: in.Test, Text: in.Search, After: in.After, Limit: in.Limit}
}

// BuildPath names a build.
type BuildPath struct {
	ID string `path:"build" maxLength:"100" doc:"the build's id"`
}

// BuildStepInput holds the parameters of ListBuildArtifacts.
type BuildStepInput struct {
	BuildPath
	Step string `query:"step" maxLength:"2010" doc:"STAGE/STEP or the step's id; default: all"`
}

// BuildView is a build with its steps.
type BuildView struct {
	buildview.Summary
	Plan  *build.Plan            `json:"plan"`
	Steps []buildview.StepView   `json:"stepList"`
	Done  map[int][]build.Update `json:"updates"` // by step; 0 is the build
}

// Operations that read builds. Their paths are those of wharf-api, without a version.
var (
	ListBuilds = Operation[BuildsInput, buildview.List]{ID: "list-builds", Method: http.MethodGet,
		Path:    "/api/build",
		Summary: "Builds, newest first"}
	GetBuild = Operation[BuildPath, BuildView]{ID: "get-build", Method: http.MethodGet,
		Path:    "/api/build/{build}",
		Summary: "One build with its plan and steps"}
	ListBuildSteps = Operation[BuildPath, []buildview.StepView]{ID: "list-build-steps", Method: http.MethodGet,
		Path:    "/api/build/{build}/step",
		Summary: "The steps of a build, with what each waits for"}
	ListBuildArtifacts = Operation[BuildStepInput, []buildview.Artifact]{ID: "list-build-artifacts", Method: http.MethodGet,
		Path:    "/api/build/{build}/artifact",
		Summary: "The artifacts of a build"}
	ListBuildTests = Operation[BuildPath, []buildview.TestFileView]{ID: "list-build-tests", Method: http.MethodGet,
		Path:    "/api/build/{build}/test-result",
		Summary: "Every file of test results of a build, with its tests"}
	SumBuildTests = Operation[BuildPath, testresult.Counts]{ID: "sum-build-tests", Method: http.MethodGet,
		Path:    "/api/build/{build}/test-result/list-summary",
		Summary: "The counts of all tests of a build"}
	SummarizeBuildTests = Operation[BuildPath, []buildview.TestSummary]{ID: "summarize-build-tests", Method: http.MethodGet,
		Path:    "/api/build/{build}/test-result/summary",
		Summary: "The counts of each file of test results"}
	DetailBuildTests = Operation[BuildTestInput, []buildview.Test]{ID: "detail-build-tests", Method: http.MethodGet,
		Path:    "/api/build/{build}/test-result/detail",
		Summary: "The results of a build's tests, those that failed or were flaky first"}
)

type BuildTestInput struct {
	BuildPath
	Outcome string `query:"outcome" enum:"passed,failed,skipped,flaky" doc:"default: all"`
	Limit   int    `query:"limit" minimum:"0" maximum:"50000" doc:"default 1000"`
}

// buildsPage is the most builds that ListBuilds answers with.
const buildsPage = 500

// AllBuilds returns the builds that an input selects, newest first: as many as its limit; 0: all.
func AllBuilds(ctx context.Context, to Caller, in BuildsInput) (all []buildview.Summary, err error) {
	for most := in.Limit; ; {
		if in.Limit = buildsPage; most > 0 {
			in.Limit = min(buildsPage, most-len(all))
		}
		page, err := ListBuilds.Call(ctx, to, in)
		if err != nil {
			return nil, err
		}
		if all = append(all, page.Builds...); page.Next == "" || most > 0 && len(all) == most {
			return all, nil
		}
		in.After = page.Next
	}
}
