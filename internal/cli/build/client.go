package build

import (
	"cmp"
	"context"
	"fmt"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/client"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service/buildview"
)

func buildClient(a *cmdline.App, address string) *client.Client {
	return a.Client(a.HomeOf(a.Dir), address)
}

// artifactsFrom lists the artifacts of a server's build, step by step.
func artifactsFrom(ctx context.Context, server operation.Caller, id operation.BuildPath) (all []build.Artifact, err error) {
	list, err := operation.ListBuildArtifacts.Call(ctx, server, operation.BuildStepInput{BuildPath: id})
	for _, a := range list {
		a.Step = a.StepID
		all = append(all, a.Artifact)
	}
	return all, err
}

// testsFrom lists the files of test results of a server's build.
func testsFrom(ctx context.Context, server operation.Caller, id operation.BuildPath) (all []build.TestFile, err error) {
	list, err := operation.ListBuildTests.Call(ctx, server, id)
	for _, f := range list {
		f.Step = f.StepID
		all = append(all, f.TestFile)
	}
	return all, err
}

// summaryFrom returns a server's summary in the form that is printed.
func summaryFrom(s buildview.Summary) show.BuildSummary {
	deployment := ""
	if s.Deployment != 0 {
		deployment = fmt.Sprintf("%s#%d", s.Pipeline, s.Deployment)
	}
	return show.BuildSummary{ID: s.ID, RerunOf: s.RerunOf, Status: s.Status, Reason: s.Reason, Source: cmp.Or(s.Source, s.Pipeline),
		Branch: s.Branch, Commit: s.Commit, Subject: s.Subject, Deployment: deployment, Steps: s.Steps,
		StartedAt: s.StartedOn, EndedAt: s.FinishedOn, Results: s.Results}
}
