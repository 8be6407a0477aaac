package command

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/build"
)

// maxTestFiles is the number of files of test results that are read of a step.
const maxTestFiles = 2000

// testFiles is what a step's rules for test results come to.
type testFiles struct {
	repo    string
	root    *os.Root // nil: the step has no rules
	files   []build.TestFile
	remarks []string
}

// findTests finds the files that report about the tests of a step. A file that was in the workspace
// already reports about other tests. The caller closes the result.
func findTests(run build.Run, repo string) (*testFiles, error) {
	t := &testFiles{repo: repo}
	if run.Step.Tests == nil {
		return t, nil
	}
	var err error
	if t.root, err = os.OpenRoot(repo); err != nil {
		return t, fmt.Errorf("collect test results: %w", err)
	}
	files, err := regularFiles(t.root, repo)
	if err != nil {
		return t, fmt.Errorf("collect test results: %w", err)
	}
	found, unmatched := build.CollectTests(run.Step.Tests, files)
	for _, glob := range unmatched {
		t.remarks = append(t.remarks, fmt.Sprintf("test-results: %s matches no file", glob))
	}
	before := len(found)
	if found, err = t.written(run.Tree, found); err != nil {
		return t, fmt.Errorf("collect test results: %w", err)
	}
	if n := before - len(found); n > 0 {
		t.remarks = append(t.remarks, fmt.Sprintf("test-results: files that the step has not written are not read: %d", n))
	}
	if len(found) > maxTestFiles {
		t.remarks = append(t.remarks, fmt.Sprintf("test-results: only the first %d of %d files are read", maxTestFiles, len(found)))
		found = found[:maxTestFiles]
	}
	t.files = found
	for i := range t.files {
		name := filepath.FromSlash(t.files[i].Name)
		t.files[i].Open = func() (io.ReadCloser, error) { return t.root.Open(name) }
	}
	return t, nil
}

// written returns the files that are not as they are in the tree from which the workspace was copied.
func (t *testFiles) written(tree string, files []build.TestFile) ([]build.TestFile, error) {
	source, err := os.OpenRoot(tree)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	return slices.DeleteFunc(files, func(f build.TestFile) bool {
		name := filepath.FromSlash(f.Name)
		is, err := t.root.Stat(name)
		was, missing := source.Stat(name)
		return err == nil && missing == nil && is.Size() == was.Size() && is.ModTime().Equal(was.ModTime())
	}), nil
}

// missing returns the error of a step whose test results are required when there are none.
func (t *testFiles) missing(step build.PlanStep) error {
	if step.Tests == nil || !step.Tests.Required || len(t.files) > 0 {
		return nil
	}
	return fmt.Errorf("test results are required, and the step has written no file that matches %s", strings.Join(step.Tests.Globs(), ", "))
}

// keep hands the files and the remarks to the sink.
func (t *testFiles) keep(sink build.Sink) error {
	for _, remark := range t.remarks {
		if err := sink.Note(remark); err != nil {
			return err
		}
	}
	if len(t.files) == 0 {
		return nil
	}
	if err := sink.Tests(t.repo, t.files); err != nil {
		return fmt.Errorf("collect test results: %w", err)
	}
	return nil
}

func (t *testFiles) close() {
	if t.root != nil {
		_ = t.root.Close() // only read
	}
}
