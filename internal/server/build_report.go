package server

import (
	"context"
	"io"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service/buildview"
)

func (a *api) registerBuildReports() {
	handle(a, operation.ReportBuildStatus, func(ctx context.Context, in *operation.StatusReport) (builds.Event, error) {
		b := in.Body
		return a.service.ReportBuildStatus(ctx, in.ID, builds.ReportedStep{ID: b.StepID, Stage: b.Stage, Name: b.Step},
			builds.Event{EventID: b.EventID, Status: b.Status, Attempt: b.Attempt, Reason: b.Reason, Message: b.Message,
				ExitCode: b.ExitCode, At: b.At})
	})
	handle(a, operation.ReportBuildLog, func(ctx context.Context, in *operation.LogReportInput) (operation.LogReported, error) {
		body, err := io.ReadAll(io.LimitReader(in.Content, operation.LargestLogReport+1))
		if err != nil {
			return operation.LogReported{}, fault.New(fault.Invalid, "read the log: %w", err)
		}
		if len(body) > operation.LargestLogReport {
			return operation.LogReported{}, fault.New(fault.TooLarge, "a report of a log has at most %d bytes", operation.LargestLogReport).
				WithHint("send fewer entries at a time")
		}
		entries, err := operation.ParseLogReport(body)
		if err != nil {
			return operation.LogReported{}, err
		}
		added, err := a.service.ReportBuildLog(ctx, in.ID, entries)
		return operation.LogReported{Added: added}, err
	})
	handle(a, operation.ReportBuildArtifact, func(ctx context.Context, in *operation.FileReport) (buildview.Artifact, error) {
		file := builds.Artifact{Artifact: build.Artifact{Step: in.StepID, Name: in.Name, Kind: build.KindFile}}
		return a.service.ReportBuildArtifact(ctx, in.ID, file, in.Content)
	})
	handle(a, operation.ReportBuildTests, func(ctx context.Context, in *operation.TestReport) (buildview.Artifact, error) {
		file := builds.Artifact{Artifact: build.Artifact{Step: in.StepID, Name: in.Name, Kind: in.Format}}
		return a.service.ReportBuildArtifact(ctx, in.ID, file, in.Content)
	})
}
