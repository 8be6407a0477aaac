package build

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/results"
	"github.com/waybill-dev/waybill/internal/testresult"
)

// mostBundled is the most bytes of logs and artifacts of a bundle before compression, a little less than the
// snapshots that provisioners send. Steps beyond it run again.
const mostBundled = 1000 << 20

// earlier returns the results for the worker of a build, from the build that it resumes; nil if it resumes none. The
// earlier build's results are gathered once: every attempt requests the same.
func (h *Handler) earlier(ctx context.Context, row builds.Build) (*provisionerv1.Earlier, error) {
	if !row.Resume || row.RerunOf == 0 || row.Bundle == builds.NoBundle {
		return nil, nil
	}
	if row.Bundle == "" {
		key, err := h.gather(ctx, row)
		if err == nil {
			row.Bundle, err = h.Workers.Builds.Bundle(ctx, row.ID, key)
		}
		if err != nil {
			return nil, fmt.Errorf("gather what build %d has left: %w", row.RerunOf, err)
		}
	}
	return &provisionerv1.Earlier{BuildID: int64(row.RerunOf), Bundle: row.Bundle}, nil
}

// gather stores a bundle of the steps that a build may reuse, and returns its blob key.
func (h *Handler) gather(ctx context.Context, row builds.Build) (key string, err error) {
	g := gathering{from: h.Workers.Builds, blobs: h.Blobs, id: row.RerunOf}
	if err := g.look(ctx, row.Project); err != nil {
		return "", err
	}
	in, out := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := g.write(ctx, out)
		written <- out.CloseWithError(err)
	}()
	key, _, _, err = h.Blobs.Put(ctx, builds.BundleFolder(row.ID)+"/", in)
	_ = in.CloseWithError(err) // ends a writer that Put has not read to its end
	<-written
	// what was there when it was looked at has gone in the meantime
	if err != nil && !fault.Is(err, fault.Unavailable) && !fault.Is(err, fault.LedgerUnavailable) {
		err = fault.Wrap(fault.Unavailable, err)
	}
	return key, err
}

// withoutEarlier has the next attempt request a worker that is given nothing of the earlier build, since the
// provisioner cannot give it.
func (h *Handler) withoutEarlier(ctx context.Context, row builds.Build, cause error) error {
	if _, err := h.Workers.Builds.Bundle(ctx, row.ID, builds.NoBundle); err != nil {
		return err
	}
	text := fmt.Sprintf("every step runs again: what build %d has left cannot be sent to the worker: %v", row.RerunOf, cause)
	_, err := h.Workers.Builds.Record(ctx, row.ID,
		builds.Event{Source: builds.Conductor, EventID: "without-bundle", Status: build.Scheduling, Reason: "Resume", Message: text})
	if err != nil {
		return err
	}
	return end{waiting(text, time.Second)}
}

// forget deletes the bundle of a build that has ended.
func (h *Handler) forget(ctx context.Context, row builds.Build) {
	if !row.Resume {
		return
	}
	ctx, cancel := asking(ctx)
	defer cancel()
	if err := h.Workers.Builds.ForgetBundle(ctx, row.ID, h.Blobs); err != nil { // ClearBundles tries again
		h.Log.Warn("what a build was given of an earlier one cannot be deleted", obs.KeyBuildID, int64(row.ID), obs.Error(err))
	}
}

// gathering is one look at an earlier build's results.
type gathering struct {
	from  *builds.Builds
	blobs Blobs
	id    builds.ID

	missing string // why nothing can be reused; "": steps can
	steps   []builds.Step
	earlier []build.Earlier // earlier builds of each step
	files   map[int][]builds.Artifact
	reports map[int][]build.TestFile
	size    int64 // bytes of logs and artifacts that are taken
}

// look finds the steps that can be reused, and why others cannot.
func (g *gathering) look(ctx context.Context, project string) error {
	found, err := g.from.Build(ctx, g.id)
	switch {
	case fault.Is(err, fault.NotFound), fault.Is(err, fault.Refused):
		g.missing = fmt.Sprintf("build %d has been deleted", g.id)
		return nil
	case err != nil:
		return err
	case found.Project != project:
		g.missing = fmt.Sprintf("build %d is of another project", g.id)
		return nil
	case !found.ExpiredAt.IsZero():
		g.missing = fmt.Sprintf("the logs and artifacts of build %d were kept until %s", g.id, found.ExpiredAt.UTC().Format("2 January 2006"))
		return nil
	}
	if err := g.read(ctx); err != nil {
		return err
	}
	for i := range g.steps {
		s := &g.steps[i]
		if s.ID == 0 {
			continue
		}
		missing, err := g.lacks(ctx, s)
		if err != nil {
			return err
		}
		g.earlier = append(g.earlier, build.Earlier{ID: s.ID, Stage: s.Stage, Name: s.Name, Identity: s.Identity, Missing: missing})
	}
	if len(g.earlier) == 0 {
		g.missing = fmt.Sprintf("build %d ended before it had steps", g.id)
	}
	return nil
}

// read reads the rows of the earlier build.
func (g *gathering) read(ctx context.Context) (err error) {
	if g.steps, err = g.from.Steps(ctx, g.id); err != nil {
		return err
	}
	artifacts, err := g.from.Artifacts(ctx, g.id, 0)
	if err != nil {
		return err
	}
	g.files, g.reports = map[int][]builds.Artifact{}, map[int][]build.TestFile{}
	for i := range artifacts {
		g.files[artifacts[i].Step] = append(g.files[artifacts[i].Step], artifacts[i])
	}
	reports, err := g.from.TestReports(ctx, g.id)
	for _, r := range reports {
		g.reports[r.Step] = append(g.reports[r.Step], r)
	}
	return err
}

// lacks reports why a step cannot be reused; "": it can, and its results count toward the bounds.
func (g *gathering) lacks(ctx context.Context, s *builds.Step) (string, error) {
	if missing := build.MissingOf(s.Status); missing != "" {
		return missing, nil
	}
	stored, err := g.from.End(ctx, g.id, s.ID)
	if err != nil {
		return "", err
	}
	if t := s.Trailer; t == nil || stored != t.End() {
		return "its log is not whole, or is gone", nil
	}
	size := g.size + s.Trailer.Bytes
	for i := range g.files[s.ID] {
		size += g.files[s.ID][i].Size
	}
	if size > mostBundled {
		return fmt.Sprintf("with its log and artifacts, those of the steps that are reused would be more than %d MiB", mostBundled>>20), nil
	}
	for i := range g.files[s.ID] {
		if missing, err := g.lacksArtifact(ctx, &g.files[s.ID][i]); missing != "" || err != nil {
			return missing, err
		}
	}
	g.size = size
	return "", nil
}

// lacksArtifact reports why an artifact cannot be reused; "": it can.
func (g *gathering) lacksArtifact(ctx context.Context, a *builds.Artifact) (string, error) {
	if a.State != builds.Stored {
		return fmt.Sprintf("the artifact %s is damaged", a.Name), nil
	}
	content, size, err := g.blobs.Get(ctx, a.Path)
	if fault.Is(err, fault.NotFound) {
		return fmt.Sprintf("the artifact %s is gone", a.Name), nil
	}
	if err != nil {
		return "", err
	}
	if size != a.Size {
		return fmt.Sprintf("the artifact %s is damaged", a.Name), content.Close()
	}
	return "", content.Close()
}

// write writes the bundle.
func (g *gathering) write(ctx context.Context, to io.Writer) error {
	b, err := results.NewBundle(to)
	if err != nil {
		return err
	}
	missing := map[int]bool{}
	for _, e := range g.earlier {
		missing[e.ID] = e.Missing != ""
	}
	for i := range g.steps {
		s := &g.steps[i]
		if s.ID == 0 || missing[s.ID] {
			continue
		}
		step, err := g.step(ctx, s)
		if err != nil {
			return err
		}
		if err := b.AddStep(step); err != nil {
			return err
		}
	}
	return b.Close(results.Earlier{Build: strconv.FormatInt(int64(g.id), 10), Missing: g.missing, Steps: g.earlier})
}

// step returns a step's results.
func (g *gathering) step(ctx context.Context, s *builds.Step) (results.BundledStep, error) {
	step := results.BundledStep{ID: s.ID, Log: g.from.OpenLog(ctx, g.id, s.ID, 0)}
	step.End = build.Update{Timestamp: s.EndedAt, Status: s.Status, Attempt: s.Attempt, ExitCode: s.ExitCode, Trailer: s.Trailer}
	for i := range g.files[s.ID] {
		step.Artifacts = append(step.Artifacts, g.files[s.ID][i].Artifact)
	}
	step.Open = func(a build.Artifact) (io.ReadCloser, error) {
		content, _, err := g.blobs.Get(ctx, a.Path)
		return content, err
	}
	for _, file := range g.reports[s.ID] {
		var err error
		if file.Results, err = g.tests(ctx, file.Artifact); err != nil {
			return step, err
		}
		step.Tests = append(step.Tests, file)
	}
	return step, nil
}

// tests returns the results that a file has.
func (g *gathering) tests(ctx context.Context, artifact int) (all []testresult.Result, err error) {
	last := builds.TestResult{Artifact: artifact}
	for {
		page, err := g.from.TestResults(ctx, g.id, last, false, testsAtOnce)
		if err != nil {
			return nil, err
		}
		for _, t := range page {
			if t.Artifact != artifact {
				return all, nil
			}
			all, last = append(all, t.Result), t
		}
		if len(page) < testsAtOnce {
			return all, nil
		}
	}
}
