package service

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/service/buildview"
	"github.com/waybill-dev/waybill/internal/testresult"
)

// reportedBuild returns a build that the sender of a request may report about: the home's token about all, another
// about those of an engine that names it. builds.Builds refuses reports about builds of Waybill's own workers.
func (s *Service) reportedBuild(ctx context.Context, id string) (row builds.Build, err error) {
	number, ok := buildview.NumberOf(id)
	if !ok {
		return row, fault.New(fault.NotFound, "build %s not found in the database", fault.Clip(id))
	}
	if row, err = s.ledger.Builds.Build(ctx, number); err != nil || row.Engine == "" {
		return row, err
	}
	mayReport := config.Builds{}.MayReport
	if s.projects.MayReport != nil {
		mayReport = s.projects.MayReport
	}
	if sender := IdentityOf(ctx); sender.Token != "" && !mayReport(row.Engine, sender.Token) {
		return row, fault.New(fault.Forbidden, "the token of %s may not report about builds of the build engine %s", sender.Token, row.Engine).
			WithHint("server.yaml: builds: {engines: {%s: {tokens: [%s]}}}", row.Engine, sender.Token)
	}
	return row, nil
}

// ReportBuildStatus stores a status that another build engine reports, see builds.ReportStatus.
func (s *Service) ReportBuildStatus(ctx context.Context, id string, step builds.ReportedStep, e builds.Event) (builds.Event, error) {
	row, err := s.reportedBuild(ctx, id)
	if err != nil {
		return e, err
	}
	return s.ledger.Builds.ReportStatus(ctx, row.ID, step, e)
}

// ReportBuildLog appends entries that another build engine reports, see builds.ReportLog.
func (s *Service) ReportBuildLog(ctx context.Context, id string, entries []build.Line) (added int, err error) {
	row, err := s.reportedBuild(ctx, id)
	if err != nil {
		return 0, err
	}
	return s.ledger.Builds.ReportLog(ctx, row.ID, entries)
}

// ReportBuildArtifact stores an artifact that another build engine reports, and of one of the kinds junit and trx its
// report about tests.
func (s *Service) ReportBuildArtifact(ctx context.Context, id string, a builds.Artifact,
	content io.Reader) (reported buildview.Artifact, err error) {
	row, err := s.reportedBuild(ctx, id)
	if err != nil {
		return reported, err
	}
	if row.Engine == "" || row.Status.Ended() { // before the content is read
		a, err = s.ledger.Builds.ReportArtifact(ctx, row.ID, a, nil)
		return buildview.Artifact{StepID: a.Step, Artifact: a.Artifact}, err
	}
	folder := builds.Folder(row.ID) + "/" + rand.Text()
	stored, err := s.reportArtifact(ctx, row.ID, folder+"/", a, content)
	used := err == nil && strings.HasPrefix(stored.Path, folder)
	unknown := err != nil && (ctx.Err() != nil || loop.Passing(err)) // a row may have been stored
	if !used && !unknown {
		err = errors.Join(err, s.blobs.Clear(ctx, folder))
	}
	return buildview.Artifact{StepID: stored.Step, Artifact: stored.Artifact}, err
}

// reportArtifact stores the content below a folder of the blob store, unless the artifact is known: then it returns the known one.
func (s *Service) reportArtifact(ctx context.Context, id builds.ID, folder string, a builds.Artifact,
	content io.Reader) (builds.Artifact, error) {
	key, digest, size, err := s.blobs.Put(ctx, folder, s.limitUpload(content))
	if err != nil {
		return a, fmt.Errorf("store artifact %s of build %d: %w", a.Name, id, err)
	}
	a.Path, a.SHA256, a.Size = key, digest, size
	tests, err := s.reportedTests(ctx, a)
	if err != nil {
		return a, err
	}
	return s.ledger.Builds.ReportArtifact(ctx, id, a, tests)
}

// reportedTests reads the test report of a stored file; nil for other files. A file that cannot be read reports that.
func (s *Service) reportedTests(ctx context.Context, a builds.Artifact) (*build.TestFile, error) {
	format := testresult.Format(a.Kind)
	if format != testresult.JUnit && format != testresult.TRX {
		return nil, nil //nolint:nilnil // nil reports that it reports nothing
	}
	content, _, err := s.blobs.Get(ctx, a.Path)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	report, err := testresult.Parse(format, content, "", testresult.NewRoom())
	problem, unreadable := errors.AsType[*testresult.Error](err)
	if err != nil && !unreadable {
		return nil, err
	}
	return &build.TestFile{Format: format, Report: report, Problem: problem}, nil
}
