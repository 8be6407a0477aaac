package build

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/testresult"
)

// table is a worker's evidence in the database.
type table struct {
	builds.Build
	from  *builds.Builds
	blobs Blobs
}

// reportedEvent is the id of the remark that an outcome was handed to the conductor.
const reportedEvent = "reported"

// testsAtOnce is the number of test results read at a time.
const testsAtOnce = 1000

func (t *table) id() string { return strconv.FormatInt(int64(t.ID), 10) }

func (t *table) end(context.Context) (*build.Update, error) {
	reason := t.Reason
	if t.Message != "" {
		reason += ": " + t.Message
	}
	return &build.Update{Status: t.Status, Reason: reason}, nil
}

func (t *table) report(ctx context.Context) error {
	_, err := t.from.Record(ctx, t.ID, builds.Event{Source: builds.Conductor, EventID: reportedEvent})
	return err
}

// artifacts lists all, those without a blob too. The rows are whole: the build succeeds only with its final marker.
func (t *table) artifacts(ctx context.Context) ([]build.Artifact, error) {
	stored, err := t.from.Artifacts(ctx, t.ID, 0)
	var all []build.Artifact
	for _, a := range stored {
		all = append(all, a.Artifact)
	}
	return all, err
}

func (t *table) open(ctx context.Context, a build.Artifact) (io.ReadCloser, error) {
	if a.Path == "" {
		return nil, fmt.Errorf("%w: the bytes of %s that came from the worker were never those of its digest", errDamaged, a.Name)
	}
	content, _, err := t.blobs.Get(ctx, a.Path)
	if fault.Is(err, fault.NotFound) {
		err = fmt.Errorf("%w: %w", errDamaged, err)
	}
	return content, err
}

func (t *table) steps(ctx context.Context) ([]builtStep, error) {
	stored, err := t.from.Steps(ctx, t.ID)
	var all []builtStep
	for i := range stored {
		if s := &stored[i]; s.ID > 0 {
			all = append(all, builtStep{id: s.ID, path: s.Stage + "/" + s.Name, status: s.Status, reason: s.Reason,
				whole: fmt.Sprintf("waybill build log %s %s/%s --server ADDRESS", t.id(), s.Stage, s.Name)})
		}
	}
	return all, err
}

func (t *table) tail(ctx context.Context, step int) ([]build.Entry, error) {
	end, err := t.from.End(ctx, t.ID, step)
	if err != nil {
		return nil, err
	}
	var entries []build.Entry
	err = t.from.Log(ctx, t.ID, step, end.ID-errorLines, func(l build.Line) error {
		l.Text = bytes.Clone(l.Text)
		entries = append(entries, l.Entry)
		return nil
	})
	return entries, err
}

func (t *table) tests(ctx context.Context, step int) (counts testresult.Counts, all []testresult.Result, err error) {
	reports, err := t.from.TestReports(ctx, t.ID)
	of := map[int]bool{}
	for _, r := range reports {
		if r.Step == step {
			counts.Add(r.Counts)
			of[r.Artifact] = true
		}
	}
	if err != nil || counts.Failed == 0 {
		return counts, nil, err
	}
	var last builds.TestResult
	for len(all) < counts.Failed {
		page, err := t.from.TestResults(ctx, t.ID, last, true, testsAtOnce)
		if err != nil || len(page) == 0 {
			return counts, all, err
		}
		for _, r := range page {
			if of[r.Artifact] && r.Outcome == testresult.Failed {
				all = append(all, r.Result)
			}
		}
		last = page[len(page)-1]
	}
	return counts, all, nil
}
