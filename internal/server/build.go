package server

import (
	"context"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service/buildview"
	"github.com/waybill-dev/waybill/internal/testresult"
)

func (a *api) registerBuilds() {
	handle(a, operation.ListBuilds, func(ctx context.Context, in *operation.BuildsInput) (buildview.List, error) {
		return a.service.Builds(ctx, in.Query())
	})
	handle(a, operation.GetBuild, func(ctx context.Context, in *operation.BuildPath) (operation.BuildView, error) {
		_, state, err := a.service.BuildState(ctx, in.ID)
		if err != nil {
			return operation.BuildView{}, err
		}
		return operation.BuildView{Summary: state.Summary, Plan: state.Plan, Steps: state.StepViews(), Done: state.Updates}, nil
	})
	handle(a, operation.ListBuildSteps, func(ctx context.Context, in *operation.BuildPath) ([]buildview.StepView, error) {
		_, state, err := a.service.BuildState(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return state.StepViews(), nil
	})
	handle(a, operation.ListBuildArtifacts, func(ctx context.Context, in *operation.BuildStepInput) ([]buildview.Artifact, error) {
		_, state, err := a.service.BuildState(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return state.ArtifactsOf(in.Step)
	})
	a.registerBuildTests()
	a.registerBuildChanges()
	a.registerBuildReports()
}

func (a *api) registerBuildTests() {
	handle(a, operation.ListBuildTests, func(ctx context.Context, in *operation.BuildPath) ([]buildview.TestFileView, error) {
		files, err := a.testFiles(ctx, in.ID)
		return buildview.TestFileViews(files), err
	})
	handle(a, operation.SumBuildTests, func(ctx context.Context, in *operation.BuildPath) (testresult.Counts, error) {
		files, err := a.testFiles(ctx, in.ID)
		return buildview.CountTests(files), err
	})
	handle(a, operation.SummarizeBuildTests, func(ctx context.Context, in *operation.BuildPath) ([]buildview.TestSummary, error) {
		files, err := a.testFiles(ctx, in.ID)
		return buildview.SummarizeTests(files), err
	})
	handle(a, operation.DetailBuildTests, func(ctx context.Context, in *operation.BuildTestInput) ([]buildview.Test, error) {
		files, err := a.testFiles(ctx, in.ID)
		return buildview.DetailTests(files, in.Outcome, in.Limit), err
	})
}

func (a *api) testFiles(ctx context.Context, id string) ([]build.TestFile, error) {
	r, err := a.service.Build(ctx, id)
	if err != nil {
		return nil, err
	}
	return r.Tests(ctx)
}
