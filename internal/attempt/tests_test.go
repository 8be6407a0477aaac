package attempt

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/build"
)

// watched returns a watcher of a folder with these files.
func watched(t *testing.T, rules *build.TestRules, files ...string) *watchedTests {
	t.Helper()
	repo := t.TempDir()
	earlier := time.Now().Add(-time.Hour)
	for _, name := range files {
		path := filepath.Join(repo, name)
		if err := errors.Join(os.WriteFile(path, []byte(name), 0o600), os.Chtimes(path, earlier, earlier)); err != nil {
			t.Fatal(err)
		}
	}
	tests, err := watchTests(rules, repo)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tests.close)
	return tests
}

func TestOnlyFilesThatTheStepHasWrittenAreItsTestResults(t *testing.T) {
	t.Parallel()
	tests := watched(t, &build.TestRules{JUnit: []string{"*.xml"}, TRX: []string{"*.trx"}}, "old.xml", "changed.xml", "touched.xml", "old.trx")
	repo := tests.repo
	secret := filepath.Join(t.TempDir(), "secret.xml")
	touched := filepath.Join(repo, "touched.xml")
	text, err := os.ReadFile(touched)
	err = errors.Join(err, os.WriteFile(filepath.Join(repo, "changed.xml"), []byte("another size"), 0o600),
		os.Remove(touched), os.WriteFile(touched, text, 0o600),
		os.WriteFile(filepath.Join(repo, "new.xml"), []byte("new"), 0o600), os.WriteFile(secret, nil, 0o600),
		os.Symlink(secret, filepath.Join(repo, "outside.xml")), os.Symlink("new.xml", filepath.Join(repo, "inside.xml")),
		os.Mkdir(filepath.Join(repo, "folder.xml"), 0o700))
	if err != nil {
		t.Fatal(err)
	}
	if err := tests.find(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range tests.files {
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err := errors.Join(err, in.Close()); err != nil {
			t.Error(err)
		}
		got = append(got, f.Name+": "+string(text))
	}
	if diff := cmp.Diff([]string{"changed.xml: another size", "inside.xml: new", "new.xml: new",
		"touched.xml: touched.xml"}, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"test-results: files that the step has not written are not read: 2"}, tests.remarks); diff != "" {
		t.Error(diff)
	}
}

// TestFilesThatCameBackFromAContainer: their times are whole seconds, so bytes decide about files of the same second.
func TestFilesThatCameBackFromAContainer(t *testing.T) {
	t.Parallel()
	tests := watched(t, &build.TestRules{JUnit: []string{"*.xml"}}, "old.xml", "same-second.xml", "later.xml")
	back := t.TempDir()
	for name, text := range map[string]string{"old.xml": "old.xml", "same-second.xml": "SAME-SECOND.xml",
		"later.xml": "later.xml", "new.xml": "new"} {
		at := time.Now()
		if before := tests.before[name]; before != nil {
			at = before.ModTime().Truncate(time.Second)
		}
		if name == "later.xml" {
			at = at.Add(time.Second)
		}
		path := filepath.Join(back, name)
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(tests.move(back, "/mnt/repo"), tests.find()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range tests.files {
		got = append(got, f.Name)
	}
	if diff := cmp.Diff([]string{"later.xml", "new.xml", "same-second.xml"}, got); diff != "" || tests.shown != "/mnt/repo" {
		t.Errorf("seen at %s: %s", tests.shown, diff)
	}
}

func TestFilesOfTestResultsAreBounded(t *testing.T) {
	t.Parallel()
	tests := watched(t, &build.TestRules{JUnit: []string{"**"}})
	for i := range maxTestFiles + 1 {
		if err := os.WriteFile(filepath.Join(tests.repo, fmt.Sprintf("%04d", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := tests.find(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"test-results: only the first 2000 of 2001 files are read"},
		tests.remarks); diff != "" || len(tests.files) != maxTestFiles {
		t.Errorf("%d files (-want +got):\n%s", len(tests.files), diff)
	}
}

func TestTestResultsAreMissing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		rules *build.TestRules
		want  string
	}{
		"no rules":     {nil, ""},
		"not required": {&build.TestRules{JUnit: []string{"a"}}, ""},
		"required": {&build.TestRules{JUnit: []string{"a"}, TRX: []string{"b", "c"}, Required: true},
			"test results are required, and the step has written no file that matches a, b, c"},
	} {
		tests := watched(t, test.rules, "a")
		if err := tests.find(); err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := tests.missing(); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}
