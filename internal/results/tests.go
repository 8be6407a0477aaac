package results

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/waybill-dev/waybill/internal/build"
)

// testsDocument is test-results.json.
type testsDocument struct {
	Files []build.TestFile `json:"files"`
}

// SetTests stores the test reports of a step's files.
func (s *Store) SetTests(id int, files []build.TestFile) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.step(id); err != nil {
		return err
	}
	return s.replace(filepath.Join(s.stepDir(id), testsFile), testsDocument{files}, true)
}

// OpenArtifact opens the bytes of an artifact that was added.
func (s *Store) OpenArtifact(a build.Artifact) (*os.File, error) {
	return openArtifact(s.stepDir(a.Step), a)
}

func openArtifact(dir string, a build.Artifact) (*os.File, error) {
	f, err := os.OpenInRoot(dir, filepath.FromSlash(a.Path))
	if err != nil {
		return nil, fmt.Errorf("open artifact %s: %w", a.Name, err)
	}
	return f, nil
}

// TestsOf lists the test reports of a step's files. They are complete once the step has ended.
func (r *Reader) TestsOf(step int) ([]build.TestFile, error) {
	var document testsDocument
	err := readJSON(filepath.Join(r.stepDir(step), testsFile), &document)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for i := range document.Files {
		document.Files[i].Step = step
	}
	return document.Files, nil
}

// Tests lists the test reports of all steps' files, in the order of the steps.
func (r *Reader) Tests() ([]build.TestFile, error) {
	b, err := r.Build()
	if err != nil {
		return nil, err
	}
	var all []build.TestFile
	for _, step := range b.Plan.Steps {
		files, err := r.TestsOf(step.ID)
		if err != nil {
			return nil, err
		}
		all = slices.Concat(all, files)
	}
	return all, nil
}
