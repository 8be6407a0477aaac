package build

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/client"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service/buildview"
)

// buildServer is a server that knows of builds.
type buildServer interface {
	AllBuilds(ctx context.Context, q buildview.Query) ([]buildview.Summary, error)
	Build(ctx context.Context, id string) (operation.BuildView, error)
	BuildArtifacts(ctx context.Context, id string) ([]build.Artifact, error)
	BuildTests(ctx context.Context, id string) ([]build.TestFile, error)
	OpenBuildArtifact(ctx context.Context, id string, artifact int) (io.ReadCloser, error)
}

func buildClient(a *cmdline.App, address string) *client.Client {
	return a.Client(a.HomeOf(a.Dir), address)
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
