package server

import (
	"context"

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
		r, err := a.service.Build(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		files, err := r.Tests(ctx)
		return buildview.TestFileViews(files), err
	})
	handle(a, operation.SumBuildTests, func(ctx context.Context, in *operation.BuildPath) (testresult.Counts, error) {
		r, err := a.service.Build(ctx, in.ID)
		if err != nil {
			return testresult.Counts{}, err
		}
		files, err := r.Tests(ctx)
		return buildview.CountTests(files), err
	})
	handle(a, operation.SummarizeBuildTests, func(ctx context.Context, in *operation.BuildPath) ([]buildview.TestSummary, error) {
		r, err := a.service.Build(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		files, err := r.Tests(ctx)
		return buildview.SummarizeTests(files), err
	})
	handle(a, operation.DetailBuildTests, func(ctx context.Context, in *operation.BuildTestInput) ([]buildview.Test, error) {
		r, err := a.service.Build(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		files, err := r.Tests(ctx)
		return buildview.DetailTests(files, in.Outcome, in.Limit), err
	})
}
