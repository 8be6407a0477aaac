package build

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/results"
	"github.com/waybill-dev/waybill/internal/testresult"
)

// folder is the evidence of a child of this process.
type folder struct{ *results.Reader }

func (f folder) id() string { return filepath.Base(f.Dir()) }

func (f folder) end(context.Context) (*build.Update, error) { return f.Final() }

func (f folder) report(context.Context) error {
	return os.WriteFile(filepath.Join(f.Dir(), reportedFile), nil, 0o600)
}

func (f folder) artifacts(context.Context) ([]build.Artifact, error) {
	if err := f.Verify(); err != nil {
		return nil, err
	}
	return f.Artifacts()
}

func (f folder) open(_ context.Context, a build.Artifact) (io.ReadCloser, error) {
	return f.OpenArtifact(a)
}

func (f folder) steps(context.Context) ([]builtStep, error) {
	b, err := f.Build()
	if err != nil {
		return nil, err
	}
	var all []builtStep
	for _, step := range b.Plan.Steps {
		last, err := f.Last(step.ID)
		if err != nil {
			return nil, err
		}
		all = append(all, builtStep{id: step.ID, path: step.Path(), at: step.At.String(), status: last.Status, reason: last.Reason,
			whole: fmt.Sprintf("waybill build log %s %s", f.id(), step.Path())})
	}
	return all, nil
}

func (f folder) tail(_ context.Context, step int) ([]build.Entry, error) {
	entries, _, err := f.Tail(step, errorLines)
	return entries, err
}

func (f folder) tests(_ context.Context, step int) (counts testresult.Counts, all []testresult.Result, err error) {
	files, err := f.TestsOf(step)
	for _, file := range files {
		counts.Add(file.Counts)
		all = append(all, file.Results...)
	}
	return counts, all, err
}
