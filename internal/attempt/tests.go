package attempt

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/file"
	"github.com/waybill-dev/waybill/internal/workspace"
)

// maxTestFiles is the number of files of test results that are read of a step.
const maxTestFiles = 2000

// watchedTests holds a step's rules for test results, resolved.
type watchedTests struct {
	rules  *build.TestRules
	repo   string
	root   *os.Root               // nil: the step has no rules
	first  *os.Root               // the folder before the step began, if the step has worked elsewhere; else nil
	shown  string                 // the folder's path as the step saw it
	before map[string]fs.FileInfo // the files that match before the step begins

	files   []build.TestSource
	remarks []string
}

// watchTests remembers the files that match the rules of a step before it begins: they report about
// tests of an earlier run. The caller closes the result.
func watchTests(rules *build.TestRules, repo string) (*watchedTests, error) {
	t := &watchedTests{rules: rules, repo: repo, shown: repo, before: map[string]fs.FileInfo{}}
	if rules == nil {
		return t, nil
	}
	var err error
	if t.root, err = os.OpenRoot(repo); err != nil {
		return nil, fmt.Errorf("look for test results: %w", err)
	}
	found, _, err := t.match()
	for _, f := range found {
		if info, err := t.root.Stat(filepath.FromSlash(f.Name)); err == nil {
			t.before[f.Name] = info
		}
	}
	if err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// move reports that dir has the files of the step at its end, with times in whole seconds, and that the step knew it
// as shown. A file that was there before must still be in the folder that is watched.
func (t *watchedTests) move(dir, shown string) (err error) {
	t.repo, t.shown = dir, shown
	if t.root == nil {
		return nil
	}
	t.first = t.root
	if t.root, err = os.OpenRoot(dir); err != nil {
		return fmt.Errorf("look for test results: %w", err)
	}
	return nil
}

func (t *watchedTests) match() (found []build.TestSource, unmatched []string, err error) {
	files, _, err := workspace.Files(t.root, t.repo)
	if err != nil {
		return nil, nil, fmt.Errorf("look for test results: %w", err)
	}
	found, unmatched = build.CollectTests(t.rules, files)
	return found, unmatched, nil
}

// find finds the files that the step has written.
func (t *watchedTests) find() error {
	if t.root == nil {
		return nil
	}
	found, unmatched, err := t.match()
	if err != nil {
		return err
	}
	for _, glob := range unmatched {
		t.remarks = append(t.remarks, fmt.Sprintf("test-results: %s matches no file", glob))
	}
	t.files = slices.DeleteFunc(found, func(f build.TestSource) bool { return !t.written(f.Name) })
	if n := len(found) - len(t.files); n > 0 {
		t.remarks = append(t.remarks, fmt.Sprintf("test-results: files that the step has not written are not read: %d", n))
	}
	if n := len(t.files); n > maxTestFiles {
		t.remarks = append(t.remarks, fmt.Sprintf("test-results: only the first %d of %d files are read", maxTestFiles, n))
		t.files = t.files[:maxTestFiles]
	}
	for i := range t.files {
		name := filepath.FromSlash(t.files[i].Name)
		t.files[i].Open = func() (io.ReadCloser, error) {
			f, _, err := file.OpenIn(t.root, name)
			return f, err
		}
	}
	return nil
}

// written reports whether a file is new or has changed since the step began.
func (t *watchedTests) written(name string) bool {
	was := t.before[name]
	is, err := t.root.Stat(filepath.FromSlash(name))
	if was == nil || err != nil || was.Size() != is.Size() {
		return true
	}
	if t.first == nil {
		return !was.ModTime().Equal(is.ModTime())
	}
	return was.ModTime().Unix() != is.ModTime().Unix() || !t.sameBytes(filepath.FromSlash(name))
}

// sameBytes compares a file with its state before the step began.
func (t *watchedTests) sameBytes(name string) bool {
	was, _, err := file.OpenIn(t.first, name)
	if err != nil {
		return false
	}
	defer was.Close()
	is, _, err := file.OpenIn(t.root, name)
	if err != nil {
		return false
	}
	defer is.Close()
	sums := [2]hash.Hash{sha256.New(), sha256.New()}
	_, err = io.Copy(sums[0], was)
	_, errIs := io.Copy(sums[1], is)
	return err == nil && errIs == nil && bytes.Equal(sums[0].Sum(nil), sums[1].Sum(nil))
}

// missing returns the error of a step whose test results are required when there are none.
func (t *watchedTests) missing() error {
	if t.rules == nil || !t.rules.Required || len(t.files) > 0 {
		return nil
	}
	return fmt.Errorf("%w, and the step has written no file that matches %s", build.ErrNoTests, strings.Join(t.rules.Globs(), ", "))
}

// keep hands the files and the remarks to the sink.
func (t *watchedTests) keep(sink build.Sink) error {
	for _, remark := range t.remarks {
		if err := sink.Note(remark); err != nil {
			return err
		}
	}
	if len(t.files) == 0 {
		return nil
	}
	if err := sink.Tests(t.shown, t.files); err != nil {
		return fmt.Errorf("collect test results: %w", err)
	}
	return nil
}

// close closes the folders.
func (t *watchedTests) close() {
	for _, root := range []*os.Root{t.root, t.first} {
		if root != nil {
			_ = root.Close() // only read
		}
	}
}
